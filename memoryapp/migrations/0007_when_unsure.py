"""Tokens say what is handed over where the embedded scorer chooses nothing."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0006_faults_of_rows")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="when_unsure",
            field=models.CharField(blank=True, db_default="", default="", max_length=10, verbose_name="when unsure"),
        ),
    ]
