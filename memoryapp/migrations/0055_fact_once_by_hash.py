"""A fact is unique by the hash of its words, because an index takes no text of more than some 2,700 bytes."""

import django.core.validators
from django.db import migrations, models
from django.db.models.functions import MD5

IS_CURRENT = models.Q(("superseded_at__isnull", True))


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0054_choice_of_an_import"),)

    operations = (
        migrations.AlterField(
            "fact",
            "content",
            models.TextField(
                max_length=10_000,
                validators=[django.core.validators.MaxLengthValidator(10_000)],
                verbose_name="content",
            ),
        ),
        migrations.RemoveConstraint("fact", "fact_once"),
        migrations.AddConstraint(
            "fact",
            models.UniqueConstraint(
                models.F("owner"), models.F("relation"), MD5("content"), condition=IS_CURRENT, name="fact_once"
            ),
        ),
    )
