"""The vectors of each hour are counted in an index: the rows lie beside a kilobyte of vector each."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0035_rests_and_hours"),)

    operations = (
        migrations.RemoveIndex(model_name="passagevector", name="passagevector_made"),
        migrations.AddIndex(
            model_name="passagevector",
            index=models.Index(fields=["made_at"], include=("owner",), name="passagevector_made"),
        ),
    )
