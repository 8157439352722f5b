"""What release 0.18.0 adds to the tables; keys with an owner stand in place of the triggers that kept the owner of each
row: ``_keys`` says how they are."""

from pathlib import Path

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.db import migrations, models

from memoryapp.engine import cells, sight
from memoryapp.migrations._keys import make_keys, make_plain_keys
from memoryapp.migrations._sights import drop_sights, make_sights


CELLS = Path(__file__).with_name("cells.sql").read_text(encoding="utf-8")
AUDIT_LAWS = Path(__file__).with_name("audit.sql").read_text(encoding="utf-8")


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0001_initial")]

    operations = [
        migrations.RunSQL("DROP FUNCTION IF EXISTS memoryapp_refuse_owner CASCADE", migrations.RunSQL.noop),
        *(
            operation
            for model, name, include in (
                ("topic", "topic_owner", ()),
                ("topicedit", "topicedit_number", ()),
                ("passage", "passage_owner", ("term_count", "is_wide")),
            )
            for operation in (
                migrations.RemoveIndex(model, name),
                migrations.AddConstraint(model, models.UniqueConstraint(fields=("owner", "id"), include=include, name=name)),
            )
        ),
        migrations.AddField("work", "tries", models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name="attempts")),
        migrations.AddIndex("message", models.Index(condition=models.Q(("is_withdrawn", False), ("topic__isnull", True)), fields=["id"], name="message_waiting")),
        migrations.AddField("apitoken", "when_unsure", models.CharField(blank=True, db_default="", default="", max_length=10, verbose_name="when unsure")),
        # An erasure need not read the facts of others.
        migrations.AddIndex("fact", GinIndex(SearchVector("content", config="russian"), name="fact_words")),
        migrations.AddField("chatuser", "least_certainty", models.PositiveSmallIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(100)], verbose_name="least certainty of a choice, %")),
        migrations.CreateModel(
            name='Miss',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('question', models.TextField(verbose_name='question')),
                ('expected', models.TextField(blank=True, verbose_name='what should have been known')),
                ('answer', models.TextField(blank=True, verbose_name='the wrong answer')),
                ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                ('moment', models.DateTimeField(verbose_name='answered wrongly at')),
                ('stage', models.CharField(blank=True, max_length=24, verbose_name='stage')),
                ('lost', models.CharField(blank=True, max_length=60, verbose_name='what was lost')),
                ('evidence', models.JSONField(blank=True, default=list, verbose_name='evidence')),
                ('state', models.CharField(choices=[('open', 'open'), ('repaired', 'put right'), ('kept', 'kept right'), ('dismissed', 'not a miss')], default='open', max_length=12, verbose_name='state')),
                ('remedy', models.CharField(blank=True, max_length=24, verbose_name='remedy')),
                ('reported_by', models.CharField(max_length=150, verbose_name='by')),
                ('repaired_at', models.DateTimeField(blank=True, null=True, verbose_name='put right')),
                ('again', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.run', verbose_name='asked again')),
                ('change', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.knowledgeedit', verbose_name='change')),
                ('golden', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.goldenquestion', verbose_name='golden question')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='misses', to='memoryapp.run', verbose_name='run')),
                ('topic_edit', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.topicedit', verbose_name='edit of topics')),
            ],
            options={'verbose_name': 'miss', 'verbose_name_plural': 'misses', 'ordering': ('-at', '-id'), 'indexes': [models.Index(fields=['owner', '-at', '-id'], name='miss_owner'), models.Index(condition=models.Q(('stage', ''), ('state', 'open')), fields=['id'], name='miss_unexplained')]},
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='at')),
                ('who', models.CharField(blank=True, max_length=200, verbose_name='who')),
                ('door', models.CharField(choices=[('page', 'page'), ('http', 'HTTP'), ('mcp', 'MCP'), ('chat', 'chat endpoint'), ('command', 'command')], max_length=8, verbose_name='door')),
                ('deed', models.CharField(choices=[('read', 'read'), ('ask', 'asked'), ('change', 'changed'), ('export', 'exported'), ('erase', 'erased'), ('sign_in', 'signed in'), ('sign_in_failed', 'failed to sign in'), ('sign_out', 'signed out')], max_length=16, verbose_name='deed')),
                ('owner_number', models.BigIntegerField(blank=True, null=True, verbose_name='number of the chat user')),
                ('what', models.CharField(blank=True, max_length=200, verbose_name='what')),
                ('address', models.GenericIPAddressField(blank=True, null=True, verbose_name='from')),
                ('place', models.BigIntegerField(blank=True, null=True, unique=True, verbose_name='place in the chain')),
                ('former', models.CharField(blank=True, db_default='', default='', max_length=64, verbose_name='seal before it')),
                ('seal', models.CharField(blank=True, db_default='', default='', max_length=64, verbose_name='seal')),
            ],
            options={'verbose_name': 'entry of the audit log', 'verbose_name_plural': 'audit log', 'ordering': ('-at', '-id'), 'indexes': [models.Index(fields=['-at', '-id'], name='auditentry_at'), models.Index(fields=['owner_number', '-at', '-id'], name='auditentry_owner'), models.Index(condition=models.Q(('seal', '')), fields=['id'], name='auditentry_unsealed')]},
        ),
        migrations.RunSQL(AUDIT_LAWS, "DROP FUNCTION memoryapp_audit_is_sealed_once, memoryapp_audit_stays, memoryapp_audit_is_not_emptied CASCADE"),
        migrations.AddField("chatuser", "guard", models.JSONField(blank=True, db_default={}, default=dict, verbose_name="what must not be stored")),
        migrations.AddField("chatuser", "guard_out", models.JSONField(blank=True, db_default={}, default=dict, verbose_name="what must not be handed over")),
        migrations.AlterField("erasure", "kind", models.CharField(choices=[("user", "chat user"), ("messages", "messages"), ("topic", "messages of a topic"), ("person", "person"), ("mask", "masks"), ("unmask", "a mask taken back"), ("expired", "what expired"), ("project", "project")], default="user", max_length=16, verbose_name="kind")),
        migrations.CreateModel("GuardSpot", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("kind", models.CharField(choices=[("keys", "keys, tokens and passwords"), ("cards", "card numbers"), ("accounts", "bank accounts"), ("ids", "numbers of passports, taxes and insurance"), ("emails", "e-mail addresses"), ("phones", "telephone numbers"), ("addresses", "postal addresses"), ("health", "words about health"), ("instructions", "sentences that instruct a model")], max_length=16, verbose_name="kind")),
            ("state", models.CharField(choices=[("marked", "marked"), ("masked", "masked"), ("held", "held"), ("kept", "kept as it is")], max_length=8, verbose_name="state")),
            ("by", models.CharField(blank=True, max_length=150, verbose_name="by")), ("at", models.DateTimeField(auto_now_add=True, verbose_name="at")),
            ("message", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="spots", to="memoryapp.message", verbose_name="message")), ("owner", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="memoryapp.chatuser", verbose_name="chat user")),
        ], {"verbose_name": "spot that the guard found", "verbose_name_plural": "spots that the guard found", "indexes": [models.Index(fields=["owner", "state", "-id"], name="guardspot_owner")], "constraints": [models.UniqueConstraint(fields=("message", "kind"), name="guardspot_once")]}),
        migrations.CreateModel("UnmaskedText", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")), ("text", models.TextField(verbose_name="text")), ("metadata", models.JSONField(default=dict, verbose_name="metadata")),
            ("message", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="unmasked", to="memoryapp.message", verbose_name="message")), ("owner", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="memoryapp.chatuser", verbose_name="chat user")),
        ], {"verbose_name": "text behind masks", "verbose_name_plural": "texts behind masks"}),
        *(
            migrations.AddField(model, name, field)
            for model, name, field in (
                ("chatuser", "daily_cap_usd", models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000)], verbose_name="cap of a day, $")),
                ("chatuser", "most_messages", models.PositiveBigIntegerField(blank=True, null=True, verbose_name="most messages")),
                ("chatuser", "most_bytes", models.PositiveBigIntegerField(blank=True, null=True, verbose_name="most bytes")),
                ("apitoken", "daily_cap_usd", models.FloatField(blank=True, null=True, verbose_name="cap of a day, $")),
                ("apitoken", "captured_at", models.DateTimeField(blank=True, null=True, verbose_name="last message stored")),
            )
        ),
        migrations.AddIndex("agentcall", models.Index(fields=["at"], include=("owner", "cost_usd"), name="agentcall_spent")),
        migrations.AddIndex("run", models.Index(fields=["created_at"], include=("owner", "token", "state", "cost_usd"), name="run_spent")),
        migrations.CreateModel(
            name="Rhythm",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("watch", models.CharField(max_length=20, verbose_name="watch")),
                ("subject", models.CharField(blank=True, max_length=40, verbose_name="subject")),
                ("period", models.PositiveIntegerField(blank=True, null=True, verbose_name="expected within, s")),
                ("usual", models.FloatField(blank=True, null=True, verbose_name="longest pause of late, s")),
                ("depth", models.PositiveIntegerField(default=0, verbose_name="waiting")),
                *((name, models.DateTimeField(blank=True, null=True, verbose_name=words)) for name, words in (("good_at", "last success"), ("due_since", "due since"), ("looked_at", "looked at"), ("silent_until", "silent until"))),
            ],
            options={"verbose_name": "rhythm", "verbose_name_plural": "rhythms", "constraints": [models.UniqueConstraint(fields=("watch", "subject"), name="rhythm_once")]},
        ),
        migrations.CreateModel(
            name="Alarm",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("mail", models.CharField(choices=[("none", "none"), ("waiting", "waits"), ("sent", "sent"), ("failed", "not sent")], default="none", max_length=8, verbose_name="mail")),
                ("mail_at", models.DateTimeField(blank=True, null=True, verbose_name="mail is due")),
                ("mail_tries", models.PositiveSmallIntegerField(default=0, verbose_name="attempts")),
                ("raised_at", models.DateTimeField(verbose_name="began")),
                *((name, models.DateTimeField(blank=True, null=True, verbose_name=words)) for name, words in (("told_at", "told"), ("calm_since", "calm since"), ("healed_at", "healed"))),
                ("rhythm", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="alarms", to="memoryapp.rhythm", verbose_name="rhythm")),
            ],
            options={"verbose_name": "alarm", "verbose_name_plural": "alarms", "ordering": ("-raised_at", "-id"), "indexes": [models.Index(fields=["-raised_at", "-id"], name="alarm_log"), models.Index(condition=models.Q(("mail", "waiting")), fields=["mail_at"], name="alarm_mail")], "constraints": [models.UniqueConstraint(condition=models.Q(("healed_at__isnull", True)), fields=("rhythm",), name="alarm_open_once")]},
        ),
        migrations.AddField("erasure", "others", models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict, verbose_name="other rows")),
        migrations.CreateModel("ExpiryRule", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("noun", models.CharField(choices=[("message", "messages"), ("fact", "facts"), ("run", "runs"), ("trace", "traces of other programs"), ("media", "media")], default="message", max_length=8, verbose_name="what")),
            ("kind", models.CharField(blank=True, help_text="A role or author, a category, a strategy or outcome, a media type; empty for any.", max_length=120, verbose_name="kind")),
            *((name, models.PositiveIntegerField(validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(most)], default=usual, help_text=words_of_help, verbose_name=words)) for name, most, usual, words, words_of_help in (("days", 36500, 365, "older than, days", ""), ("grace_days", 365, 14, "set aside for, days", "So long everything can be brought back; then it is erased for good."))),
            ("condition", models.CharField(choices=[("age", "all of that age"), ("unrecalled", "those never recalled"), ("stale", "those neither recalled nor changed in that time")], default="age", max_length=12, verbose_name="of these")),
            ("is_on", models.BooleanField(default=True, verbose_name="on")),
            ("made_by", models.CharField(max_length=150, verbose_name="by")),
            ("made_at", models.DateTimeField(auto_now_add=True, verbose_name="made")),
            ("checked_at", models.DateTimeField(blank=True, null=True, verbose_name="applied")),
            ("owner", models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to="memoryapp.chatuser", verbose_name="chat user")),
        ], {"verbose_name": "rule of expiry", "verbose_name_plural": "rules of expiry", "ordering": ("-pk",)}),
        migrations.CreateModel("ExpiryBatch", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("state", models.CharField(choices=[("aside", "set aside"), ("kept", "kept"), ("gone", "gone")], default="aside", max_length=8, verbose_name="state")),
            ("count", models.PositiveIntegerField(verbose_name="rows")),
            ("at", models.DateTimeField(auto_now_add=True, verbose_name="set aside")),
            ("due_at", models.DateTimeField(verbose_name="goes at")),
            ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
            ("ended_by", models.CharField(blank=True, max_length=200, verbose_name="by")),
            ("owner", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="memoryapp.chatuser", verbose_name="chat user")),
            ("rule", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="memoryapp.expiryrule", verbose_name="rule")),
            *((name, models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=to, verbose_name=words)) for name, to, words in (("edit", "memoryapp.topicedit", "edit of topics"), ("receipt", "memoryapp.erasure", "receipt"))),
        ], {"verbose_name": "batch that expires", "verbose_name_plural": "batches that expire", "ordering": ("-pk",), "indexes": [models.Index(fields=["owner", "-id"], name="expirybatch_owner"), models.Index(condition=models.Q(("state", "aside")), fields=["due_at"], name="expirybatch_due")]}),
        migrations.CreateModel("ExpiringRow", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            *((name, models.CharField(blank=blank, max_length=most, verbose_name=words)) for name, most, words, blank in (("number", 36, "number", False), ("former", 6, "recalled before", True), ("kept_by", 200, "kept by", True))),
            ("owner", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="memoryapp.chatuser", verbose_name="chat user")),
            ("batch", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="rows", to="memoryapp.expirybatch", verbose_name="batch")),
        ], {"verbose_name": "row that expires", "verbose_name_plural": "rows that expire", "indexes": [models.Index(fields=["owner", "number"], name="expiringrow_number")], "constraints": [models.UniqueConstraint(fields=("batch", "number"), name="expiringrow_once")]}),
        *(
            migrations.AddField(model, "project", models.CharField(blank=True, db_default="", default=sight.into, max_length=64, verbose_name="project"))
            for model in ("message", "topic", "fact", "person", "artifact", "run", "importfile", "bulkwork")
        ),
        migrations.RemoveConstraint("message", "message_once"),
        migrations.AddConstraint("message", models.UniqueConstraint(fields=("owner", "external_id", "project"), name="message_once")),
        migrations.RemoveConstraint("artifact", "artifact_once"),
        migrations.AddConstraint("artifact", models.UniqueConstraint(fields=("owner", "sha256", "project"), name="artifact_once")),
        migrations.RemoveConstraint("fact", "fact_once"),
        migrations.AddConstraint("fact", models.UniqueConstraint("owner", "relation", models.functions.MD5("content"), "project", condition=models.Q(superseded_at__isnull=True), name="fact_once")),
        *(
            migrations.AddField(model, "projects", models.JSONField(blank=True, null=True, verbose_name="projects"))
            for model in ("apitoken", "operator")
        ),
        migrations.AlterField("bulkwork", "kind", models.CharField(choices=[('summarise', 'write the summaries again'), ('split', 'split again'), ('extract', 'extract facts and people again'), ('embed', 'make the vectors again'), ('label', 'give to a project')], max_length=12, verbose_name='kind')),
        migrations.CreateModel("Talk", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("changes", models.PositiveBigIntegerField(db_default=0, default=0, verbose_name="changes of the talk")),
            ("owner", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="memoryapp.chatuser", verbose_name="chat user")),
        ], {"verbose_name": "changes of the talk", "verbose_name_plural": "changes of the talk", "constraints": [models.UniqueConstraint(fields=("owner",), name="talk_once")]}),
        migrations.RunSQL("INSERT INTO memoryapp_talk (owner_id, changes) SELECT id, talk FROM memoryapp_chatuser", migrations.RunSQL.noop),
        migrations.RemoveField("chatuser", "talk"),
        migrations.AddField("chatuser", "cell", models.PositiveSmallIntegerField(db_default=0, default=0, editable=False, verbose_name="cell")),
        migrations.AlterField("run", "id", models.UUIDField(default=cells.run_id, editable=False, primary_key=True, serialize=False)),
        migrations.RunSQL(CELLS, migrations.RunSQL.noop),
        migrations.AddField("embeddingprofile", "whole_at", models.DateTimeField(blank=True, null=True, verbose_name="had all vectors")),
        migrations.RunPython(make_keys, make_plain_keys),
        migrations.RunSQL(Path(__file__).with_name("indexes.sql").read_text(encoding="utf-8"), migrations.RunSQL.noop),
        migrations.RunPython(make_sights, drop_sights),
    ]
