"""The text of artifacts, who described them, and when one that could not be read is tried again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0025_filter_presets"),)

    operations = (
        migrations.AddField("artifact", "text", models.TextField(blank=True, db_default="", verbose_name="text")),
        migrations.AddField(
            "artifact",
            "is_cut",
            models.BooleanField(db_default=False, default=False, verbose_name="longer than what was read"),
        ),
        migrations.AddField(
            "artifact",
            "described_by",
            models.CharField(blank=True, db_default="", max_length=200, verbose_name="described by"),
        ),
        migrations.AddField(
            "artifact", "attempts", models.PositiveIntegerField(db_default=0, default=0, verbose_name="attempts")
        ),
        migrations.AddField("artifact", "due_at", models.DateTimeField(blank=True, null=True, verbose_name="again at")),
        migrations.AddField("artifact", "fault", models.TextField(blank=True, db_default="", verbose_name="fault")),
    )
