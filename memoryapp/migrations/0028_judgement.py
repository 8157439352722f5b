"""What operators think of answers."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryapp", "0027_agent_prompts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Judgement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("is_good", models.BooleanField(verbose_name="good")),
                ("at", models.DateTimeField(auto_now=True, verbose_name="at")),
                (
                    "operator",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="judged by",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="memoryapp.chatuser",
                        verbose_name="chat user",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="judgements",
                        to="memoryapp.run",
                        verbose_name="run",
                    ),
                ),
            ],
            options={
                "verbose_name": "judgement",
                "verbose_name_plural": "judgements",
                "ordering": ("-at", "-id"),
                "constraints": [models.UniqueConstraint(fields=("run", "operator"), name="judgement_once")],
            },
        ),
    ]
