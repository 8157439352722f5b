"""A fact that is in the memory already, while a person is asked whether it replaces another one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0045_erasure_share")]

    operations = [
        migrations.AddField(
            model_name="finding",
            name="stored",
            field=models.BigIntegerField(blank=True, null=True, verbose_name="in the memory as"),
        ),
    ]
