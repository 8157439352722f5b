"""Why a file was not read, as a code with values."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0040_runs_listed")]

    operations = [
        migrations.AddField(
            model_name="artifact",
            name="fault_note",
            field=models.JSONField(blank=True, null=True, verbose_name="fault as a code"),
        ),
    ]
