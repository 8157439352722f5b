"""Suggested merges know the merger's question about them; its prompt can be edited."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryapp", "0016_pauses_of_stages"),
    ]

    operations = [
        migrations.AddField(
            model_name="suggestion",
            name="call",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="memoryapp.agentcall",
                verbose_name="agent's question",
            ),
        ),
        migrations.AddField(
            model_name="suggestion",
            name="tries",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name="questions without an answer"),
        ),
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
                ],
                max_length=16,
                verbose_name="prompt",
            ),
        ),
        migrations.AlterField(
            model_name="suggestion",
            name="state",
            field=models.CharField(
                choices=[
                    ("open", "open"),
                    ("accepted", "accepted"),
                    ("never", "never"),
                    ("outdated", "outdated"),
                    ("declined", "declined by the merger"),
                ],
                default="open",
                max_length=8,
                verbose_name="state",
            ),
        ),
    ]
