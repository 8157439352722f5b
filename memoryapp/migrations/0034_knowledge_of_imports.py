"""Changes of people, facts and artifacts name the import that brought them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0033_counted_messages"),)

    operations = (
        migrations.AddField(
            model_name="knowledgeedit",
            name="batch",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                to="memoryapp.importbatch",
                verbose_name="import",
            ),
        ),
    )
