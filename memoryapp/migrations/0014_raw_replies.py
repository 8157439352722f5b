import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryapp", "0013_run_stopped_by"),
    ]

    operations = [
        migrations.AlterField(
            model_name="prompt",
            name="name",
            field=models.CharField(
                choices=[("rerank", "rerank"), ("enrich", "enrich"), ("split", "split"), ("merge", "merge")],
                max_length=16,
                verbose_name="prompt",
            ),
        ),
        migrations.CreateModel(
            name="RawReply",
            fields=[
                (
                    "event",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="raw_reply",
                        serialize=False,
                        to="memoryapp.runevent",
                        verbose_name="event",
                    ),
                ),
                ("message", models.TextField(verbose_name="message")),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="memoryapp.chatuser",
                        verbose_name="chat user",
                    ),
                ),
            ],
            options={
                "verbose_name": "raw reply",
                "verbose_name_plural": "raw replies",
            },
        ),
        migrations.CreateModel(
            name="AgentCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "agent",
                    models.CharField(
                        choices=[("splitter", "splitter"), ("merger", "merger")], max_length=16, verbose_name="agent"
                    ),
                ),
                ("topics", models.JSONField(blank=True, default=list, verbose_name="topics")),
                ("at", models.DateTimeField(auto_now_add=True, verbose_name="at")),
                ("model", models.CharField(blank=True, max_length=200, verbose_name="model")),
                ("prompt_version", models.CharField(blank=True, max_length=40, verbose_name="prompt version")),
                ("outcome", models.CharField(blank=True, max_length=32, verbose_name="outcome")),
                ("input_tokens", models.PositiveBigIntegerField(default=0, verbose_name="input tokens")),
                ("output_tokens", models.PositiveBigIntegerField(default=0, verbose_name="output tokens")),
                ("cost_usd", models.FloatField(default=0, verbose_name="cost, $")),
                ("seconds", models.FloatField(default=0, verbose_name="seconds")),
                ("events", models.JSONField(blank=True, default=list, verbose_name="events")),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="memoryapp.chatuser",
                        verbose_name="chat user",
                    ),
                ),
            ],
            options={
                "verbose_name": "agent's question",
                "verbose_name_plural": "agents' questions",
                "indexes": [models.Index(fields=["owner", "-at"], name="agentcall_owner")],
            },
        ),
    ]
