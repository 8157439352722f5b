"""The words of facts have an index, so that an erasure need not read the facts of others."""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0007_when_unsure"),)

    operations = (
        migrations.AddIndex(
            model_name="fact",
            index=GinIndex(SearchVector("content", config="russian"), name="fact_words"),
        ),
    )
