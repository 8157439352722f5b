"""The words of each topic's summary, by which a search finds it; the database makes them of the rows that are there."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models

import memoryapp.models.topic


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0037_thresholds_decided")]

    operations = [
        migrations.AddField(
            model_name="topic",
            name="terms",
            field=models.GeneratedField(
                db_persist=True,
                expression=memoryapp.models.topic.SummaryTerms("summary"),
                output_field=django.contrib.postgres.search.SearchVectorField(),
                verbose_name="terms",
            ),
        ),
        migrations.AddIndex(
            model_name="topic",
            index=django.contrib.postgres.indexes.GinIndex(fields=["terms"], name="topic_terms"),
        ),
    ]
