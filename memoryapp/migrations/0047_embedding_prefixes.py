"""The prefixes of queries and passages belong to an embedding profile, because they change its vectors.

The squashed migration is named beside the newest, so that names alone show one last migration.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0001_squashed_0037_thresholds_decided"), ("memoryapp", "0046_finding_stored")]

    operations = [
        migrations.AddField(
            model_name="embeddingprofile",
            name="query_prefix",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=300, verbose_name="prefix of queries"
            ),
        ),
        migrations.AddField(
            model_name="embeddingprofile",
            name="passage_prefix",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=300, verbose_name="prefix of passages"
            ),
        ),
        migrations.RemoveConstraint(model_name="embeddingprofile", name="profile_once"),
        migrations.AddConstraint(
            model_name="embeddingprofile",
            constraint=models.UniqueConstraint(
                fields=("provider", "model", "dimensions", "query_prefix", "passage_prefix"), name="profile_once"
            ),
        ),
    ]
