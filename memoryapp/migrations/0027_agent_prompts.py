"""Prompts of the strategy that works with tools can be edited."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryapp", "0026_artifact_texts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="prompt",
            name="name",
            field=models.CharField(
                choices=[
                    ("rerank", "rerank"),
                    ("enrich", "enrich"),
                    ("split", "split"),
                    ("merge", "merge"),
                    ("consolidate", "consolidate"),
                    ("extract", "extract"),
                    ("plan", "plan"),
                    ("expand", "expand"),
                    ("answer", "answer"),
                ],
                max_length=16,
                verbose_name="prompt",
            ),
        ),
    ]
