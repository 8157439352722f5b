"""Strategies that were evaluated side by side, and the first of them that the others are compared with."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0028_judgement"),)

    operations = (
        migrations.AddField(
            "evaluation",
            "reference",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="beside",
                to="memoryapp.evaluation",
                verbose_name="compared with",
            ),
        ),
    )
