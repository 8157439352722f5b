"""The cosine from which topics are compared for a merge belongs to the profile; profiles begin with the settings'."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models

import memoryapp.models.embedding


class Migration(migrations.Migration):
    dependencies = (("memoryapp", '0022_partial_erasure'),)

    operations = (
        migrations.AddField(
            model_name="embeddingprofile",
            name="consolidation_threshold",
            field=models.FloatField(
                default=memoryapp.models.embedding.merge_threshold,
                help_text="From 0 to 1: topics whose cosine is lower are not compared for a merge.",
                validators=[MinValueValidator(0), MaxValueValidator(1)],
                verbose_name="threshold for merges",
            ),
        ),
    )
