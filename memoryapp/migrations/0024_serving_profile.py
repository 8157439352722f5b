"""One embedding profile serves searches while vectors of another are made; texts that a model refused are kept."""

import django.db.models.deletion
from django.db import migrations, models

# The profile with the most vectors is the one that was in use, of equals the newest.
MARK = """
UPDATE memoryapp_embeddingprofile SET is_serving = true WHERE id = (
    SELECT profile_id FROM memoryapp_passagevector GROUP BY profile_id ORDER BY count(*) DESC, profile_id DESC LIMIT 1
)
"""
# They were means of passages; those of summary and log do not compare with them. The embedded model makes them anew for
# nothing, vectors of an endpoint stay until somebody asks for new ones.
RENEW = """
DELETE FROM memoryapp_topicvector USING memoryapp_embeddingprofile
WHERE memoryapp_embeddingprofile.id = profile_id AND provider = 'embedded'
"""


def _only(name):
    others = {f"{other}__isnull": other != name for other in ("passage", "card", "topic")}
    return models.Q(**others)


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0023_consolidation_threshold"),)

    operations = (
        migrations.AddField(
            model_name="embeddingprofile",
            name="is_serving",
            field=models.BooleanField(default=False, verbose_name="serves searches"),
        ),
        migrations.AddField(
            model_name="embeddingprofile",
            name="asked_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="asked"),
        ),
        migrations.AddField(
            model_name="embeddingprofile",
            name="asked_by",
            field=models.CharField(blank=True, max_length=150, verbose_name="asked by"),
        ),
        migrations.RunSQL(MARK, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="embeddingprofile",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_serving", True)), fields=("is_serving",), name="profile_serves"
            ),
        ),
        migrations.RunSQL(RENEW, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="RefusedText",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reason", models.CharField(max_length=500, verbose_name="reason")),
                ("tries", models.PositiveIntegerField(default=1, verbose_name="tries")),
                ("retry_at", models.DateTimeField(verbose_name="asked for again from")),
                *(
                    (
                        noun,
                        models.ForeignKey(
                            blank=True,
                            null=True,
                            on_delete=django.db.models.deletion.CASCADE,
                            to=f"memoryapp.{noun}",
                        ),
                    )
                    for noun in ("passage", "card", "topic")
                ),
                (
                    "profile",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="memoryapp.embeddingprofile",
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
            ],
            options={
                "verbose_name": "refused text",
                "verbose_name_plural": "refused texts",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("profile", "passage", "card", "topic"), name="refusedtext_once", nulls_distinct=False
                    ),
                    models.CheckConstraint(
                        condition=_only("passage") | _only("card") | _only("topic"), name="refusedtext_of_one"
                    ),
                ],
            },
        ),
    )
