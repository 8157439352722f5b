"""A run may be a fork of another: at a turn, with changes.

The squashed migration is named beside the newest, so that names alone show one last migration.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0001_squashed_0037_thresholds_decided"), ("memoryapp", "0043_namesakes")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="turn",
            field=models.SmallIntegerField(blank=True, null=True, verbose_name="forked at turn"),
        ),
        migrations.AddField(
            model_name="run",
            name="changes",
            field=models.JSONField(
                blank=True, db_default=models.Value({}, models.JSONField()), default=dict, verbose_name="changes"
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="parent",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="memoryapp.run",
                verbose_name="fork of",
            ),
        ),
    ]
