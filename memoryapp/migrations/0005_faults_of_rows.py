"""Work that counts its faults, and an index of the messages that are in no topic by their arrival."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0004_words_again")]

    operations = [
        migrations.AddField(
            model_name="work",
            name="tries",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name="attempts"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("is_withdrawn", False), ("topic__isnull", True)),
                fields=["id"],
                name="message_waiting",
            ),
        ),
    ]
