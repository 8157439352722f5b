"""A memory may have its own least certainty from which the embedded scorer chooses."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0008_words_of_facts")]

    operations = [
        migrations.AddField(
            model_name="chatuser",
            name="least_certainty",
            field=models.PositiveSmallIntegerField(
                blank=True,
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="least certainty of a choice, %",
            ),
        ),
    ]
