from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryapp", "0007_edit_number"),
    ]

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("process", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
        ),
    ]
