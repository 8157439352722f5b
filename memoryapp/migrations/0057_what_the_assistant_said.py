"""What the assistant said with the context of a run, and what of it that uses."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0056_one_live_topic"),)

    operations = (
        migrations.AddField(
            model_name="run",
            name="delivered",
            field=models.JSONField(blank=True, null=True, verbose_name="what the assistant said"),
        ),
    )
