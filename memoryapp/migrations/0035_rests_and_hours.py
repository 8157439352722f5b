"""When an embedding model is asked again, when vectors were made and files read; files described by a chat model."""

import django.contrib.postgres.indexes
import django.db.models.functions.datetime
from django.db import migrations, models

AGENTS = ("splitter", "merger", "archivist", "describer")
PROMPTS = ("rerank", "enrich", "split", "merge", "consolidate", "extract", "plan", "expand", "answer", "describe")
NOW = django.db.models.functions.datetime.Now()


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0034_knowledge_of_imports"),)

    operations = (
        migrations.AddField(
            model_name="artifact",
            name="read_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="was read"),
        ),
        migrations.AddField(
            model_name="embeddingprofile",
            name="failures",
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name="failures in a row"),
        ),
        migrations.AddField(
            model_name="embeddingprofile",
            name="fault",
            field=models.CharField(blank=True, db_default="", max_length=500, verbose_name="fault"),
        ),
        migrations.AddField(
            model_name="embeddingprofile",
            name="rests_until",
            field=models.DateTimeField(blank=True, null=True, verbose_name="asked again from"),
        ),
        # In two steps, so that rows there are keep none: they were not made today.
        migrations.AddField(
            model_name="passagevector",
            name="made_at",
            field=models.DateTimeField(null=True, verbose_name="made"),
        ),
        migrations.AlterField(
            model_name="passagevector",
            name="made_at",
            field=models.DateTimeField(db_default=NOW, null=True, verbose_name="made"),
        ),
        migrations.AddIndex(
            model_name="passagevector",
            index=django.contrib.postgres.indexes.BrinIndex(fields=["made_at"], name="passagevector_made"),
        ),
        migrations.AlterField(
            model_name="agentcall",
            name="agent",
            field=models.CharField(choices=[(name, name) for name in AGENTS], max_length=16, verbose_name="agent"),
        ),
        migrations.AlterField(
            model_name="prompt",
            name="name",
            field=models.CharField(choices=[(name, name) for name in PROMPTS], max_length=16, verbose_name="prompt"),
        ),
    )
