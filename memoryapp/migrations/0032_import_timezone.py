"""The time zone of a file whose times are written without one, and changed texts that are taken from a file."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0031_pauses_of_files_and_erasing"),)

    operations = (
        migrations.AddField(
            "importfile",
            "takes_changes",
            models.BooleanField(db_default=False, default=False, verbose_name="with changed texts"),
        ),
        migrations.AlterField(
            "topicedit",
            "kind",
            models.CharField(
                choices=[
                    ("archive", "archived"),
                    ("edit", "edited"),
                    ("merge", "merged"),
                    ("split", "split"),
                    ("move", "moved messages"),
                    ("resplit", "split anew"),
                    ("withdraw", "withdrew messages"),
                    ("reword", "took changed texts"),
                    ("undo", "undone"),
                ],
                max_length=16,
                verbose_name="kind",
            ),
        ),
        migrations.AddField(
            "importfile",
            "timezone",
            models.CharField(blank=True, db_default="", max_length=64, verbose_name="time zone"),
        ),
    )
