"""A place for the words of each topic's summary, by which a search finds it; a later migration makes them."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0037_thresholds_decided")]

    operations = [
        migrations.AddField(
            model_name="topic",
            name="terms",
            field=django.contrib.postgres.search.SearchVectorField(null=True, verbose_name="terms"),
        ),
        migrations.AddIndex(
            model_name="topic",
            index=django.contrib.postgres.indexes.GinIndex(fields=["terms"], name="topic_terms"),
        ),
    ]
