from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryapp", "0012_work"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="stopped_by",
            field=models.CharField(blank=True, db_default="", max_length=150, verbose_name="stopped by"),
        ),
    ]
