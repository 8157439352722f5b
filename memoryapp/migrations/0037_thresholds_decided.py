"""Whether somebody decided on the thresholds of an embedding profile that took over."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0036_vectors_of_an_hour")]

    operations = [
        migrations.AddField(
            model_name="embeddingprofile",
            name="decision",
            field=models.CharField(
                blank=True,
                choices=[("", "not asked for"), ("due", "asked for"), ("made", "made")],
                db_default="",
                default="",
                max_length=8,
                verbose_name="decision on thresholds",
            ),
        ),
    ]
