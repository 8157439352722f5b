"""The words of summaries are made as those of passages are, in every script; the database had a rule of its own."""

from itertools import islice

import django.contrib.postgres.indexes
from django.db import migrations

import memoryapp.models.topic
from memoryapp.engine.text.lexical import fold

_BATCH = 500


def fold_summaries(apps, schema_editor):
    found = apps.get_model("memoryapp", "Topic").objects.values_list("pk", "summary").order_by("pk").iterator(_BATCH)
    with schema_editor.connection.cursor() as cursor:
        while rows := list(islice(found, _BATCH)):
            cursor.executemany(
                "UPDATE memoryapp_topic SET terms = to_tsvector('russian', %s) WHERE id = %s",
                [(fold(summary), number) for number, summary in rows],
            )


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0057_what_the_assistant_said")]

    operations = [
        migrations.RemoveIndex("topic", "topic_terms"),
        migrations.RemoveField("topic", "terms"),
        migrations.AddField(
            "topic", "terms", memoryapp.models.topic.SummaryTerms(editable=False, null=True, verbose_name="terms")
        ),
        migrations.RunPython(fold_summaries, migrations.RunPython.noop),
        migrations.AlterField(
            "topic", "terms", memoryapp.models.topic.SummaryTerms(editable=False, verbose_name="terms")
        ),
        migrations.AddIndex(
            "topic", django.contrib.postgres.indexes.GinIndex(fields=["terms"], name="topic_terms")
        ),
    ]
