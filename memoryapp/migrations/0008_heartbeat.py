from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryapp", "0007_edit_number"),
    ]

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("process", models.CharField(max_length=16, primary_key=True, serialize=False, verbose_name="process")),
                ("at", models.DateTimeField(verbose_name="last sign of life")),
            ],
            options={"verbose_name": "sign of life", "verbose_name_plural": "signs of life"},
        ),
    ]
