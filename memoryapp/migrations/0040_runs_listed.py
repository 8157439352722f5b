"""The list of runs: the newest of all chat users by an index, instead of a sort of every run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0039_faults_as_codes")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(evaluation__isnull=True), fields=["-created_at", "-id"], name="run_by_hand"
            ),
        ),
    ]
