"""The reading of files and erasing can be paused, too."""

from django.db import migrations, models

KINDS = [
    ("import", "Import"),
    ("archive", "Archiving"),
    ("embed", "Embedding"),
    ("consolidate", "Consolidation"),
    ("extract", "Extraction"),
    ("artifacts", "Reading of files"),
    ("erase", "Erasing"),
]


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0029_evaluation_reference"),)

    operations = tuple(
        migrations.AlterField(model, "kind", models.CharField(choices=KINDS, max_length=16, verbose_name="kind"))
        for model in ("work", "pause", "stagepause")
    )
