"""Why background work failed, as a code with values, and the language in which a file's import is told about."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0038_summary_terms")]

    operations = [
        migrations.AddField(
            model_name="embeddingprofile",
            name="fault_note",
            field=models.JSONField(blank=True, null=True, verbose_name="fault as a code"),
        ),
        migrations.AddField(
            model_name="importfile",
            name="language",
            field=models.CharField(blank=True, db_default="", max_length=16, verbose_name="language"),
        ),
        migrations.AddField(
            model_name="work",
            name="fault_note",
            field=models.JSONField(blank=True, null=True, verbose_name="fault as a code"),
        ),
    ]
