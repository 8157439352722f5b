"""What release 0.16.0 adds to the tables, and the words of stored texts, made again as ``lexical.fold`` makes them now."""

from datetime import timedelta
from itertools import islice

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.functions
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import memoryapp.models.topic
import memoryapp.models.agent
import memoryapp.models.agent
import memoryapp.models.work
import pgvector.django.halfvec
from django.conf import settings
from django.db import migrations, models

from memoryapp.engine.text.lexical import count_terms, fold

# ASCII, Cyrillic and typographic marks are folded as before.
_OTHER = r"[\u00c0-\u03ff\u0460-\u1fff\u2c00-\ud7ff\uf900-\ufdff\ufe70-\uffdc\U00020000-\U0002ffff]"
_BATCH = 500
_A_MOMENT = timedelta(microseconds=1)


def _rows(apps, schema_editor, model):
    return apps.get_model("memoryapp", model).objects.using(schema_editor.connection.alias).order_by("pk")


def fold_summaries(apps, schema_editor):
    """The words of all summaries; the database made them by a rule of its own."""
    found = _rows(apps, schema_editor, "Topic").values_list("pk", "summary").iterator(_BATCH)
    with schema_editor.connection.cursor() as cursor:
        while rows := list(islice(found, _BATCH)):
            cursor.executemany(
                "UPDATE memoryapp_topic SET terms = to_tsvector('russian', %s) WHERE id = %s",
                [(fold(summary), number) for number, summary in rows],
            )


def fold_texts(apps, schema_editor):
    """The words of passages in other alphabets; a card is made again by the next sweep, because it is older than its row."""
    passages = _rows(apps, schema_editor, "Passage").filter(text__regex=_OTHER)
    found = passages.values_list("pk", "text").iterator(_BATCH)
    with schema_editor.connection.cursor() as cursor:
        while rows := list(islice(found, _BATCH)):
            cursor.executemany(
                "UPDATE memoryapp_passage SET terms = to_tsvector('russian', %s), term_count = %s WHERE id = %s",
                [(fold(text), count_terms(text), number) for number, text in rows],
            )
    cards = _rows(apps, schema_editor, "Card").filter(text__regex=_OTHER)
    cards.update(made_from=models.F("made_from") - models.Value(_A_MOMENT, models.DurationField()))


class Migration(migrations.Migration):

    dependencies = [
        ('memoryapp', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='embeddingprofile',
            name='profile_once',
        ),
        migrations.RemoveConstraint(
            model_name='fact',
            name='fact_once',
        ),
        migrations.RemoveConstraint(
            model_name='person',
            name='person_once',
        ),
        migrations.RemoveConstraint(
            model_name='refusedtext',
            name='refusedtext_once',
        ),
        migrations.RemoveConstraint(
            model_name='refusedtext',
            name='refusedtext_of_one',
        ),
        migrations.AddField(
            model_name='apitoken',
            name='counted',
            field=models.BigIntegerField(db_default=0, default=0, editable=False, verbose_name='requests counted'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='counted_from',
            field=models.BigIntegerField(db_default=0, default=0, editable=False, verbose_name='counted from'),
        ),
        migrations.AddField(
            model_name='chatuser',
            name='talk',
            field=models.PositiveBigIntegerField(db_default=0, default=0, editable=False, verbose_name='changes of the talk'),
        ),
        migrations.AddField(
            model_name='embeddingprofile',
            name='passage_prefix',
            field=models.CharField(blank=True, db_default='', default='', max_length=300, verbose_name='prefix of passages'),
        ),
        migrations.AddField(
            model_name='embeddingprofile',
            name='query_prefix',
            field=models.CharField(blank=True, db_default='', default='', max_length=300, verbose_name='prefix of queries'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='share',
            field=models.FloatField(blank=True, null=True, verbose_name='share of runs with a mark'),
        ),
        migrations.AddField(
            model_name='evaluation',
            name='asked_by',
            field=models.CharField(blank=True, db_default='', max_length=150, verbose_name='asked by'),
        ),
        migrations.AddField(
            model_name='evaluation',
            name='done',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='done'),
        ),
        migrations.AddField(
            model_name='evaluation',
            name='questions',
            field=models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list, verbose_name='golden questions'),
        ),
        migrations.AddField(
            model_name='evaluation',
            name='state',
            field=models.CharField(choices=[('pending', 'waiting'), ('running', 'running'), ('stopped', 'stopped'), ('finished', 'finished')], db_default='finished', default='finished', max_length=8, verbose_name='state'),
        ),
        migrations.AddField(
            model_name='fact',
            name='recall',
            field=models.CharField(blank=True, choices=[('pinned', 'pinned'), ('never', 'never recalled')], db_default='', default='', max_length=6, verbose_name='recall'),
        ),
        migrations.AddField(
            model_name='finding',
            name='stored',
            field=models.BigIntegerField(blank=True, null=True, verbose_name='in the memory as'),
        ),
        migrations.AddField(
            model_name='importbatch',
            name='left_out',
            field=models.JSONField(blank=True, db_default=[], default=list, verbose_name='left out'),
        ),
        migrations.AddField(
            model_name='importfile',
            name='attempts',
            field=models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name='attempts'),
        ),
        migrations.AddField(
            model_name='importfile',
            name='chats',
            field=models.JSONField(blank=True, db_default=[], default=list, verbose_name='chosen chats'),
        ),
        migrations.AddField(
            model_name='importfile',
            name='dates',
            field=models.CharField(blank=True, db_default='', max_length=3, verbose_name='order of dates'),
        ),
        migrations.AddField(
            model_name='importfile',
            name='since',
            field=models.DateTimeField(blank=True, null=True, verbose_name='messages from'),
        ),
        migrations.AddField(
            model_name='importfile',
            name='until',
            field=models.DateTimeField(blank=True, null=True, verbose_name='messages before'),
        ),
        migrations.AddField(
            model_name='person',
            name='recall',
            field=models.CharField(blank=True, choices=[('pinned', 'pinned'), ('never', 'never recalled')], db_default='', default='', max_length=6, verbose_name='recall'),
        ),
        migrations.AddField(
            model_name='run',
            name='attempt',
            field=models.PositiveSmallIntegerField(db_default=0, default=0, editable=False, verbose_name='begun again'),
        ),
        migrations.AddField(
            model_name='run',
            name='changes',
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict, verbose_name='changes'),
        ),
        migrations.AddField(
            model_name='run',
            name='delivered',
            field=models.JSONField(blank=True, null=True, verbose_name='what the assistant said'),
        ),
        migrations.AddField(
            model_name='run',
            name='origin',
            field=models.CharField(blank=True, db_default='', max_length=120, verbose_name='origin'),
        ),
        migrations.AddField(
            model_name='run',
            name='traceparent',
            field=models.CharField(blank=True, db_default='', max_length=55, verbose_name='span of the caller'),
        ),
        migrations.AddField(
            model_name='run',
            name='turn',
            field=models.SmallIntegerField(blank=True, null=True, verbose_name='forked at turn'),
        ),
        migrations.AddField(
            model_name='topic',
            name='recall',
            field=models.CharField(blank=True, choices=[('pinned', 'pinned'), ('never', 'never recalled')], db_default='', default='', max_length=6, verbose_name='recall'),
        ),
        migrations.AlterField(
            model_name='chatuser',
            name='profile',
            field=models.TextField(blank=True, validators=[django.core.validators.MaxLengthValidator(16000)], verbose_name='profile'),
        ),
        migrations.AlterField(
            model_name='chatuser',
            name='session_messages',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(2), django.core.validators.MaxValueValidator(10000)], verbose_name='most messages of a session'),
        ),
        migrations.AlterField(
            model_name='chatuser',
            name='silence_seconds',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(60), django.core.validators.MaxValueValidator(2592000)], verbose_name='silence that ends a session, s'),
        ),
        migrations.AlterField(
            model_name='chatuser',
            name='topic_messages',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)], verbose_name='least messages of a topic'),
        ),
        migrations.AlterField(
            model_name='fact',
            name='content',
            field=models.TextField(max_length=10000, validators=[django.core.validators.MaxLengthValidator(10000)], verbose_name='content'),
        ),
        migrations.AlterField(
            model_name='finding',
            name='noun',
            field=models.CharField(choices=[('person', 'person'), ('artifact', 'artifact'), ('fact', 'fact'), ('topic', 'topic')], max_length=8, verbose_name='noun'),
        ),
        migrations.AlterField(
            model_name='knowledgeedit',
            name='noun',
            field=models.CharField(choices=[('person', 'person'), ('artifact', 'artifact'), ('fact', 'fact'), ('topic', 'topic')], max_length=8, verbose_name='noun'),
        ),
        migrations.AlterField(
            model_name='run',
            name='parent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.run', verbose_name='fork of'),
        ),
        migrations.AlterField(
            model_name='pause',
            name='kind',
            field=models.CharField(choices=memoryapp.models.work.work_kinds, max_length=16, verbose_name='kind'),
        ),
        migrations.AlterField(
            model_name='stagepause',
            name='kind',
            field=models.CharField(choices=memoryapp.models.work.work_kinds, max_length=16, verbose_name='kind'),
        ),
        migrations.AlterField(
            model_name='work',
            name='kind',
            field=models.CharField(choices=memoryapp.models.work.work_kinds, max_length=16, verbose_name='kind'),
        ),
        migrations.AlterField(
            model_name='topicedit',
            name='kind',
            field=models.CharField(choices=memoryapp.models.topic.edit_kinds, max_length=16, verbose_name='kind'),
        ),
        migrations.AlterField(
            model_name='agentcall',
            name='agent',
            field=models.CharField(choices=memoryapp.models.agent.named_agents, max_length=16, verbose_name='agent'),
        ),
        migrations.AlterField(
            model_name='prompt',
            name='name',
            field=models.CharField(choices=memoryapp.models.agent.named_prompts, max_length=16, verbose_name='prompt'),
        ),
        migrations.RemoveIndex(
            model_name='topic',
            name='topic_terms',
        ),
        migrations.RemoveField(
            model_name='topic',
            name='terms',
        ),
        migrations.AddField(
            model_name='topic',
            name='terms',
            field=memoryapp.models.topic.SummaryTerms(editable=False, null=True, verbose_name='terms'),
        ),
        migrations.RunPython(fold_summaries, migrations.RunPython.noop),
        migrations.RunPython(fold_texts, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='topic',
            name='terms',
            field=memoryapp.models.topic.SummaryTerms(editable=False, verbose_name='terms'),
        ),
        migrations.AddIndex(
            model_name='topic',
            index=django.contrib.postgres.indexes.GinIndex(fields=['terms'], name='topic_terms'),
        ),
        migrations.AddIndex(
            model_name='evaluation',
            index=models.Index(condition=models.Q(('state__in', ('pending', 'running'))), fields=['id'], name='evaluation_open'),
        ),
        migrations.AddIndex(
            model_name='person',
            index=models.Index(fields=['owner', 'display_name'], name='person_name'),
        ),
        migrations.AddIndex(
            model_name='topic',
            index=models.Index(condition=models.Q(('is_live', True), models.Q(('recall', ''), _negated=True)), fields=['owner'], name='topic_recall'),
        ),
        migrations.AddConstraint(
            model_name='embeddingprofile',
            constraint=models.UniqueConstraint(fields=('provider', 'model', 'dimensions', 'query_prefix', 'passage_prefix'), name='profile_once'),
        ),
        migrations.AddConstraint(
            model_name='fact',
            constraint=models.UniqueConstraint(models.F('owner'), models.F('relation'), django.db.models.functions.text.MD5('content'), condition=models.Q(('superseded_at__isnull', True)), name='fact_once'),
        ),
        migrations.CreateModel(
            name='BulkWork',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('summarise', 'write the summaries again'), ('split', 'split again'), ('extract', 'extract facts and people again'), ('embed', 'make the vectors again')], max_length=12, verbose_name='kind')),
                ('state', models.CharField(choices=[('going_on', 'going on'), ('stopped', 'stopped'), ('done', 'done'), ('undone', 'undone')], default='going_on', max_length=12, verbose_name='state')),
                ('asked_by', models.CharField(max_length=150, verbose_name='asked by')),
                ('asked_at', models.DateTimeField(auto_now_add=True, verbose_name='asked')),
                ('rests_until', models.DateTimeField(blank=True, null=True, verbose_name='again at')),
                ('at', models.DateTimeField(auto_now=True, verbose_name='last sign of life')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
            ],
            options={
                'verbose_name': 'work on many topics',
                'verbose_name_plural': 'work on many topics',
                'indexes': [models.Index(fields=['owner', '-id'], name='bulkwork_owner'), models.Index(condition=models.Q(('state', 'going_on')), fields=['id'], name='bulkwork_going_on')],
            },
        ),
        migrations.CreateModel(
            name='ForgetRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('asked_by', models.CharField(max_length=200, verbose_name='asked by')),
                ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                ('message', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.message', verbose_name='message')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
            ],
            options={
                'verbose_name': 'request to forget',
                'verbose_name_plural': 'requests to forget',
                'indexes': [models.Index(fields=['owner', 'id'], name='forgetrequest_owner')],
            },
        ),
        migrations.CreateModel(
            name='GoldenQuestion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('collection', models.CharField(max_length=80, verbose_name='set')),
                ('question', models.TextField(verbose_name='question')),
                ('category', models.CharField(blank=True, max_length=60, verbose_name='category')),
                ('evidence', models.JSONField(blank=True, default=list, verbose_name='evidence')),
                ('made_by', models.CharField(max_length=150, verbose_name='by')),
                ('at', models.DateTimeField(auto_now=True, verbose_name='at')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
            ],
            options={
                'verbose_name': 'golden question',
                'verbose_name_plural': 'golden questions',
                'ordering': ('collection', 'pk'),
                'indexes': [models.Index(fields=['owner', 'collection'], name='goldenquestion_owner')],
            },
        ),
        migrations.CreateModel(
            name='Grade',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('value', models.PositiveSmallIntegerField(verbose_name='grade')),
                ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.message', verbose_name='message')),
                ('operator', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL, verbose_name='judged by')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grades', to='memoryapp.run', verbose_name='run')),
            ],
            options={
                'verbose_name': 'grade',
                'verbose_name_plural': 'grades',
                'indexes': [models.Index(fields=['owner', '-at'], name='grade_owner')],
                'constraints': [models.UniqueConstraint(fields=('run', 'message', 'operator'), name='grade_once'), models.CheckConstraint(condition=models.Q(('value__lte', 2)), name='grade_of_three')],
            },
        ),
        migrations.CreateModel(
            name='NightlyRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('collection', models.CharField(max_length=80, verbose_name='set')),
                ('strategy', models.CharField(max_length=16, verbose_name='strategy')),
                ('most', models.PositiveIntegerField(verbose_name='questions at most')),
                ('hour', models.PositiveSmallIntegerField(verbose_name='hour')),
                ('zone', models.CharField(max_length=64, verbose_name='time zone')),
                ('is_on', models.BooleanField(default=True, verbose_name='asked each night')),
                ('next_at', models.DateTimeField(verbose_name='next night')),
                ('recipients', models.TextField(blank=True, db_default='', verbose_name='mail to')),
                ('made_by', models.CharField(max_length=150, verbose_name='by')),
                ('made_at', models.DateTimeField(auto_now_add=True, verbose_name='made')),
                ('baseline', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.evaluation', verbose_name='baseline')),
            ],
            options={
                'verbose_name': 'nightly run',
                'verbose_name_plural': 'nightly runs',
                'ordering': ('collection', 'pk'),
                'indexes': [models.Index(condition=models.Q(('is_on', True)), fields=['next_at'], name='nightlyrun_due')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('list', models.CharField(choices=[('topics', 'topics'), ('messages', 'messages'), ('people', 'people'), ('facts', 'facts'), ('artifacts', 'artifacts'), ('runs', 'runs')], max_length=12, verbose_name='list')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('query', models.JSONField(default=dict, verbose_name='query')),
                ('is_shared', models.BooleanField(default=False, verbose_name='shared')),
                ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL, verbose_name='saved by')),
            ],
            options={
                'verbose_name': 'saved view',
                'verbose_name_plural': 'saved views',
                'constraints': [models.UniqueConstraint(fields=('owner', 'list', 'user', 'name'), name='savedview_once')],
            },
        ),
        migrations.CreateModel(
            name='StoredItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('namespace', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None, verbose_name='namespace')),
                ('key', models.TextField(verbose_name='key')),
                ('value', models.JSONField(verbose_name='value')),
                ('text', models.TextField(blank=True, verbose_name='text')),
                ('created_at', models.DateTimeField(verbose_name='created')),
                ('updated_at', models.DateTimeField(verbose_name='changed')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
            ],
            options={
                'verbose_name': 'stored item',
                'verbose_name_plural': 'stored items',
                'indexes': [models.Index(fields=['owner', '-updated_at', '-id'], name='storeditem_latest')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'namespace', 'key'), name='storeditem_once')],
            },
        ),
        migrations.CreateModel(
            name='Trace',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='memoryapp.run', verbose_name='run')),
                ('number', models.UUIDField(verbose_name='trace id')),
                ('has_root', models.BooleanField(default=False, verbose_name='has ended')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
            ],
            options={
                'verbose_name': 'trace',
                'verbose_name_plural': 'traces',
                'constraints': [models.UniqueConstraint(fields=('owner', 'number'), name='trace_once')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, verbose_name='name')),
                ('address', models.CharField(max_length=2000, verbose_name='address')),
                ('kinds', models.JSONField(default=list, verbose_name='events')),
                ('state', models.CharField(choices=[('on', 'on'), ('paused', 'paused'), ('off', 'off')], db_default='on', default='on', max_length=8, verbose_name='state')),
                ('off_reason', models.CharField(blank=True, db_default='', max_length=16, verbose_name='why it is off')),
                ('nonce', models.CharField(editable=False, max_length=64, unique=True)),
                ('check_digest', models.CharField(editable=False, max_length=64)),
                ('former_nonce', models.CharField(blank=True, db_default='', editable=False, max_length=64)),
                ('former_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('failures', models.PositiveIntegerField(db_default=0, default=0, verbose_name='failures in a row')),
                ('failing_since', models.DateTimeField(blank=True, null=True, verbose_name='failing since')),
                ('rests_until', models.DateTimeField(blank=True, null=True, verbose_name='rests until')),
                ('made_by', models.CharField(max_length=150, verbose_name='by')),
                ('made_at', models.DateTimeField(auto_now_add=True, verbose_name='made')),
            ],
            options={
                'verbose_name': 'webhook',
                'verbose_name_plural': 'webhooks',
                'ordering': ('name', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='BulkTopic',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('waiting', 'waiting'), ('done', 'done'), ('unchanged', 'left as it is'), ('failed', 'failed')], default='waiting', max_length=12, verbose_name='state')),
                ('tries', models.PositiveSmallIntegerField(default=0, verbose_name='questions without an answer')),
                ('fault', models.TextField(blank=True, verbose_name='fault')),
                ('edit', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.topicedit', verbose_name='edit')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('topic', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topic', verbose_name='topic')),
                ('work', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='rows', to='memoryapp.bulkwork', verbose_name='work')),
            ],
            options={
                'verbose_name': 'topic of work on many',
                'verbose_name_plural': 'topics of work on many',
                'constraints': [models.UniqueConstraint(fields=('work', 'topic'), name='bulktopic_once')],
            },
        ),
        migrations.CreateModel(
            name='GoldenNight',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                ('state', models.CharField(choices=[('running', 'running'), ('passed', 'as good as before'), ('dropped', 'dropped'), ('failed', 'could not be asked')], default='running', max_length=8, verbose_name='state')),
                ('model', models.CharField(blank=True, max_length=200, verbose_name='model')),
                ('regressions', models.JSONField(blank=True, default=list, verbose_name='what got worse')),
                ('reason', models.CharField(blank=True, max_length=16, verbose_name='reason')),
                ('failed', models.PositiveIntegerField(default=0, verbose_name='questions that failed')),
                ('is_alarm', models.BooleanField(default=False, verbose_name='alarm')),
                ('mail', models.CharField(choices=[('none', 'none'), ('waiting', 'waits'), ('sent', 'sent'), ('failed', 'not sent')], default='none', max_length=8, verbose_name='mail')),
                ('mail_at', models.DateTimeField(blank=True, null=True, verbose_name='mail is due')),
                ('mail_tries', models.PositiveSmallIntegerField(default=0, verbose_name='attempts')),
                ('against', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.evaluation', verbose_name='compared with')),
                ('evaluation', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryapp.evaluation', verbose_name='evaluation')),
                ('nightly', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='nights', to='memoryapp.nightlyrun', verbose_name='nightly run')),
            ],
            options={
                'verbose_name': 'night',
                'verbose_name_plural': 'nights',
                'ordering': ('-at', '-id'),
                'indexes': [models.Index(fields=['nightly', '-at', '-id'], name='night_log'), models.Index(condition=models.Q(('state', 'running'), ('mail', 'waiting'), _connector='OR'), fields=['id'], name='night_open')],
            },
        ),
        migrations.CreateModel(
            name='ItemVector',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('vector', pgvector.django.halfvec.HalfVectorField(verbose_name='vector')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='memoryapp.embeddingprofile')),
                ('item', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.storeditem')),
            ],
            options={
                'verbose_name': 'item vector',
                'verbose_name_plural': 'item vectors',
                'indexes': [models.Index(fields=['owner', 'profile'], name='itemvector_owner')],
                'constraints': [models.UniqueConstraint(fields=('item', 'profile'), name='itemvector_once')],
            },
        ),
        migrations.CreateModel(
            name='TraceSpan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('span', models.CharField(max_length=16, verbose_name='span')),
                ('body', models.JSONField(verbose_name='body')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('trace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='spans', to='memoryapp.trace', verbose_name='trace')),
            ],
            options={
                'verbose_name': 'span of a trace',
                'verbose_name_plural': 'spans of traces',
                'constraints': [models.UniqueConstraint(fields=('trace', 'span'), name='tracespan_once')],
            },
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=32, verbose_name='event')),
                ('subject', models.CharField(blank=True, db_default='', max_length=64, verbose_name='about')),
                ('message', models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), editable=False, verbose_name='message')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='at')),
                ('state', models.CharField(choices=[('waiting', 'waiting'), ('delivered', 'delivered'), ('failed', 'failed')], db_default='waiting', default='waiting', max_length=12, verbose_name='state')),
                ('next_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='next attempt')),
                ('attempts', models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name='attempts')),
                ('tries', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list, verbose_name='attempts')),
                ('body', models.TextField(blank=True, db_default='', verbose_name='body')),
                ('status', models.PositiveSmallIntegerField(blank=True, null=True, verbose_name='status')),
                ('fault', models.CharField(blank=True, db_default='', max_length=16, verbose_name='fault')),
                ('seconds', models.FloatField(blank=True, null=True, verbose_name='seconds')),
                ('response', models.TextField(blank=True, db_default='', verbose_name='response')),
                ('last_at', models.DateTimeField(blank=True, null=True, verbose_name='last attempt')),
                ('owner', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('webhook', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.webhook', verbose_name='webhook')),
            ],
            options={
                'verbose_name': 'message of a webhook',
                'verbose_name_plural': 'messages of webhooks',
                'ordering': ('-at', '-id'),
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['webhook', 'next_at'], name='webhookdelivery_due'), models.Index(fields=['webhook', '-at', '-id'], name='webhookdelivery_log'), models.Index(fields=['at'], name='webhookdelivery_at'), models.Index(condition=models.Q(('owner__isnull', False)), fields=['owner'], name='webhookdelivery_owner')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('attempts', 0), ('kind', 'inbox.waiting'), ('state', 'waiting')), fields=('webhook', 'owner'), name='webhookdelivery_once')],
            },
        ),
        migrations.CreateModel(
            name='GoldenAlarm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ('night', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alarms', to='memoryapp.goldennight', verbose_name='night')),
            ],
            options={
                'verbose_name': 'alarm of a golden set',
                'verbose_name_plural': 'alarms of golden sets',
                'constraints': [models.UniqueConstraint(fields=('owner', 'night'), name='goldenalarm_once')],
            },
        ),
        migrations.AddField(
            model_name='refusedtext',
            name='item',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.storeditem'),
        ),
        migrations.AddConstraint(
            model_name='refusedtext',
            constraint=models.UniqueConstraint(fields=('profile', 'passage', 'card', 'topic', 'item'), name='refusedtext_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='refusedtext',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('card__isnull', True), ('item__isnull', True), ('passage__isnull', False), ('topic__isnull', True)), models.Q(('card__isnull', False), ('item__isnull', True), ('passage__isnull', True), ('topic__isnull', True)), models.Q(('card__isnull', True), ('item__isnull', True), ('passage__isnull', True), ('topic__isnull', False)), models.Q(('card__isnull', True), ('item__isnull', False), ('passage__isnull', True), ('topic__isnull', True)), _connector='OR'), name='refusedtext_of_one'),
        ),
    ]
