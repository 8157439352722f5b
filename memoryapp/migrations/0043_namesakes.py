"""Names of people need not be unique: people may be namesakes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0042_import_attempts")]

    operations = [
        migrations.RemoveConstraint(model_name="person", name="person_once"),
        migrations.AddIndex(
            model_name="person",
            index=models.Index(fields=["owner", "display_name"], name="person_name"),
        ),
    ]
