"""Messages are counted, and their topics, times and authors read, out of indexes without their texts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0032_import_timezone"),)

    operations = (
        migrations.AddIndex(
            "message",
            models.Index(fields=("owner", "sent_at", "id"), include=("is_withdrawn",), name="message_counted"),
        ),
        migrations.RemoveIndex("message", "message_order"),
        migrations.AddIndex(
            "message",
            models.Index(
                fields=("owner",),
                include=("id", "topic", "sent_at", "role", "author"),
                condition=models.Q(topic__isnull=False),
                name="message_in_topic",
            ),
        ),
        migrations.RemoveIndex("message", "message_archived"),
    )
