"""The tables as the migrations up to 0037 leave them, made at once where there are none yet.

A database that has some of those goes on with the others: Django takes this one instead of them where none was applied.
Rows to fill in an empty database has not. The laws and functions are read from where they were written.
"""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.db.models.lookups
import memoryapp.models.embedding
import memoryapp.models.passage
import pgvector.django.halfvec
import uuid
from importlib import import_module
from django.conf import settings
from django.db import migrations, models
from django.db.migrations.operations.base import Operation
from pgvector.django import VectorExtension


def _statements(name):
    """The SQL of a replaced migration."""
    operations = import_module(f"{__package__}.{name}").Migration.operations
    return [operation for operation in operations if isinstance(operation, migrations.RunSQL)]


class CreateModels(Operation):
    """The tables of all these models. One after another, Django would build those before anew for each of them."""

    def __init__(self, models):
        self.models = models

    def state_forwards(self, app_label, state):
        # What was built of the state is forgotten, and built once when it is asked for.
        state.__dict__.pop('apps', None)
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        for model in reversed(self.models):
            model.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self):
        return 'Create all models'


class Migration(migrations.Migration):

    replaces = [
        ('memoryapp', '0001_memory'),
        ('memoryapp', '0002_doors_and_curation'),
        ('memoryapp', '0003_curation_laws'),
        ('memoryapp', '0004_faster_search'),
        ('memoryapp', '0005_prompt_in_force'),
        ('memoryapp', '0006_people_and_artifacts_chosen'),
        ('memoryapp', '0007_edit_number'),
        ('memoryapp', '0008_heartbeat'),
        ('memoryapp', '0009_wordings_and_thresholds'),
        ('memoryapp', '0010_login_sessions'),
        ('memoryapp', '0011_erasure'),
        ('memoryapp', '0012_work'),
        ('memoryapp', '0013_run_stopped_by'),
        ('memoryapp', '0014_raw_replies'),
        ('memoryapp', '0015_agent_calls'),
        ('memoryapp', '0016_pauses_of_stages'),
        ('memoryapp', '0018_consolidation'),
        ('memoryapp', '0019_findings'),
        ('memoryapp', '0021_import_files'),
        ('memoryapp', '0022_partial_erasure'),
        ('memoryapp', '0023_consolidation_threshold'),
        ('memoryapp', '0024_serving_profile'),
        ('memoryapp', '0025_filter_presets'),
        ('memoryapp', '0026_artifact_texts'),
        ('memoryapp', '0027_agent_prompts'),
        ('memoryapp', '0028_judgement'),
        ('memoryapp', '0029_evaluation_reference'),
        ('memoryapp', '0031_pauses_of_files_and_erasing'),
        ('memoryapp', '0032_import_timezone'),
        ('memoryapp', '0033_counted_messages'),
        ('memoryapp', '0034_knowledge_of_imports'),
        ('memoryapp', '0035_rests_and_hours'),
        ('memoryapp', '0036_vectors_of_an_hour'),
        ('memoryapp', '0037_thresholds_decided'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        VectorExtension(),
        CreateModels([
            migrations.CreateModel(
                name='ChatUser',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=200, unique=True, verbose_name='name')),
                    ('display_name', models.CharField(blank=True, max_length=200, verbose_name='shown as')),
                    ('profile', models.TextField(blank=True, verbose_name='profile')),
                    ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                    ('erasing_since', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='being erased since')),
                    ('consolidation', models.CharField(choices=[('automatic', 'merge similar topics'), ('suggest', 'suggest merges'), ('off', 'off')], db_default='suggest', default='suggest', max_length=16, verbose_name='consolidation')),
                    ('extraction', models.CharField(choices=[('automatic', 'use what is extracted at once'), ('review', 'a person confirms what is extracted'), ('off', 'off')], db_default='review', default='review', max_length=16, verbose_name='extraction')),
                    ('session_messages', models.PositiveIntegerField(blank=True, null=True, verbose_name='most messages of a session')),
                    ('silence_seconds', models.PositiveIntegerField(blank=True, null=True, verbose_name='silence that ends a session, s')),
                    ('topic_messages', models.PositiveIntegerField(blank=True, null=True, verbose_name='least messages of a topic')),
                ],
                options={
                    'verbose_name': 'chat user',
                    'verbose_name_plural': 'chat users',
                    'ordering': ('name',),
                },
            ),
            migrations.CreateModel(
                name='Evaluation',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('source', models.CharField(max_length=300, verbose_name='questions')),
                    ('strategy', models.CharField(max_length=16, verbose_name='strategy')),
                    ('parameters', models.JSONField(blank=True, default=dict, verbose_name='parameters')),
                    ('started_at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                    ('report', models.JSONField(blank=True, default=dict, verbose_name='report')),
                    ('reference', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='beside', to='memoryapp.evaluation', verbose_name='compared with')),
                ],
                options={
                    'verbose_name': 'evaluation',
                    'verbose_name_plural': 'evaluations',
                    'ordering': ('-started_at', '-id'),
                },
            ),
            migrations.CreateModel(
                name='EmbeddingProfile',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('provider', models.CharField(max_length=100, verbose_name='provider')),
                    ('model', models.CharField(max_length=200, verbose_name='model')),
                    ('dimensions', models.PositiveIntegerField(verbose_name='dimensions')),
                    ('threshold', models.FloatField(help_text='From 0 to 1: topics that share no word with a query and whose cosine is lower are not shown.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)], verbose_name='threshold')),
                    ('consolidation_threshold', models.FloatField(default=memoryapp.models.embedding.merge_threshold, help_text='From 0 to 1: topics whose cosine is lower are not compared for a merge.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)], verbose_name='threshold for merges')),
                    ('is_serving', models.BooleanField(default=False, verbose_name='serves searches')),
                    ('asked_at', models.DateTimeField(blank=True, null=True, verbose_name='asked')),
                    ('asked_by', models.CharField(blank=True, max_length=150, verbose_name='asked by')),
                    ('failures', models.PositiveIntegerField(db_default=0, default=0, verbose_name='failures in a row')),
                    ('fault', models.CharField(blank=True, db_default='', max_length=500, verbose_name='fault')),
                    ('rests_until', models.DateTimeField(blank=True, null=True, verbose_name='asked again from')),
                    ('decision', models.CharField(blank=True, choices=[('', 'not asked for'), ('due', 'asked for'), ('made', 'made')], db_default='', default='', max_length=8, verbose_name='decision on thresholds')),
                ],
                options={
                    'verbose_name': 'embedding profile',
                    'verbose_name_plural': 'embedding profiles',
                    'constraints': [models.UniqueConstraint(fields=('provider', 'model', 'dimensions'), name='profile_once'), models.UniqueConstraint(condition=models.Q(('is_serving', True)), fields=('is_serving',), name='profile_serves')],
                },
            ),
            migrations.CreateModel(
                name='ImportBatch',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('source', models.CharField(max_length=300, verbose_name='source')),
                    ('format', models.CharField(max_length=20, verbose_name='format')),
                    ('started_at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                    ('added', models.PositiveIntegerField(default=0, verbose_name='added')),
                    ('skipped', models.PositiveIntegerField(default=0, verbose_name='skipped')),
                    ('rejected', models.JSONField(blank=True, default=list, verbose_name='rejected')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('file', models.UUIDField(blank=True, editable=False, null=True, verbose_name='file')),
                ],
                options={
                    'verbose_name': 'import',
                    'verbose_name_plural': 'imports',
                    'ordering': ('-started_at', '-id'),
                    'indexes': [models.Index(fields=['owner', '-started_at'], name='importbatch_owner')],
                    'constraints': [models.UniqueConstraint(fields=('owner', 'file'), name='importbatch_once')],
                },
            ),
            migrations.CreateModel(
                name='Operator',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('role', models.CharField(choices=[('viewer', 'viewer'), ('debugger', 'debugger'), ('curator', 'curator'), ('admin', 'admin')], default='viewer', max_length=16, verbose_name='role')),
                    ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL, verbose_name='user')),
                ],
                options={
                    'verbose_name': 'operator',
                    'verbose_name_plural': 'operators',
                },
            ),
            migrations.CreateModel(
                name='Access',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('operator', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.operator', verbose_name='operator')),
                ],
                options={
                    'verbose_name': 'access',
                    'verbose_name_plural': 'access',
                    'indexes': [models.Index(fields=['owner'], name='access_owner')],
                    'constraints': [models.UniqueConstraint(fields=('operator', 'owner'), name='access_once')],
                },
            ),
            migrations.CreateModel(
                name='Person',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('display_name', models.CharField(max_length=200, verbose_name='name')),
                    ('aliases', models.JSONField(blank=True, default=list, verbose_name='also called')),
                    ('username', models.CharField(blank=True, max_length=100, verbose_name='username')),
                    ('circle', models.CharField(choices=[('Family', 'family'), ('Friends', 'friends'), ('Work_Inner', 'close colleagues'), ('Work_Outer', 'colleagues'), ('Other', 'others')], default='Other', max_length=20, verbose_name='circle')),
                    ('bio', models.TextField(blank=True, verbose_name='about')),
                    ('mention_count', models.PositiveIntegerField(default=0, verbose_name='mentions')),
                    ('first_seen', models.DateTimeField(blank=True, null=True, verbose_name='first seen')),
                    ('last_seen', models.DateTimeField(blank=True, null=True, verbose_name='last seen')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('updated_at', models.DateTimeField(auto_now=True, verbose_name='changed')),
                ],
                options={
                    'verbose_name': 'person',
                    'verbose_name_plural': 'people',
                    'ordering': ('display_name', 'id'),
                    'constraints': [models.UniqueConstraint(fields=('owner', 'display_name'), name='person_once')],
                },
            ),
            migrations.CreateModel(
                name='Topic',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('summary', models.TextField(blank=True, verbose_name='summary')),
                    ('started_at', models.DateTimeField(verbose_name='first message')),
                    ('ended_at', models.DateTimeField(verbose_name='last message')),
                    ('message_count', models.PositiveIntegerField(verbose_name='messages')),
                    ('size_chars', models.PositiveIntegerField(verbose_name='characters')),
                    ('is_live', models.BooleanField(default=True, verbose_name='live')),
                    ('facts_extracted', models.BooleanField(default=False, verbose_name='facts extracted')),
                    ('is_consolidated', models.BooleanField(default=False, verbose_name='consolidated')),
                    ('consolidation_checked', models.BooleanField(default=False, verbose_name='consolidation checked')),
                    ('locked_by_hand', models.BooleanField(default=False, verbose_name='edited by hand')),
                    ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('erased_at', models.DateTimeField(blank=True, null=True, verbose_name='messages erased')),
                ],
                options={
                    'verbose_name': 'topic',
                    'verbose_name_plural': 'topics',
                    'indexes': [models.Index(condition=models.Q(('is_live', True)), fields=['owner', '-ended_at', '-id'], name='topic_live_order'), models.Index(fields=['owner', 'id'], name='topic_owner')],
                },
            ),
            migrations.CreateModel(
                name='Message',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('external_id', models.CharField(max_length=300, verbose_name='external id')),
                    ('role', models.CharField(choices=[('user', 'user'), ('assistant', 'assistant'), ('peer', 'peer'), ('system', 'system')], max_length=16, verbose_name='role')),
                    ('author', models.CharField(blank=True, max_length=200, verbose_name='author')),
                    ('sent_at', models.DateTimeField(verbose_name='sent')),
                    ('text', models.TextField(blank=True, verbose_name='text')),
                    ('session', models.CharField(blank=True, max_length=200, verbose_name='session')),
                    ('reply_to', models.CharField(blank=True, max_length=300, verbose_name='reply to')),
                    ('forwarded_from', models.CharField(blank=True, max_length=200, verbose_name='forwarded from')),
                    ('metadata', models.JSONField(blank=True, default=dict, verbose_name='metadata')),
                    ('content_hash', models.CharField(max_length=64, verbose_name='content hash')),
                    ('batch', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.importbatch', verbose_name='import')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('topic', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.RESTRICT, to='memoryapp.topic', verbose_name='topic')),
                    ('is_withdrawn', models.BooleanField(default=False, verbose_name='withdrawn')),
                ],
                options={
                    'verbose_name': 'message',
                    'verbose_name_plural': 'messages',
                    'indexes': [models.Index(fields=['topic', 'sent_at', 'id'], name='message_topic'), models.Index(condition=models.Q(('is_withdrawn', False), ('topic__isnull', True)), fields=['owner'], name='message_active'), models.Index(fields=['owner', 'sent_at', 'id'], include=('is_withdrawn',), name='message_counted'), models.Index(condition=models.Q(('topic__isnull', False)), fields=['owner'], include=('id', 'topic', 'sent_at', 'role', 'author'), name='message_in_topic')],
                    'constraints': [models.UniqueConstraint(fields=('owner', 'external_id'), name='message_once'), models.CheckConstraint(condition=models.Q(('is_withdrawn', False), ('topic__isnull', True), _connector='OR'), name='message_withdrawn_from_topics')],
                },
            ),
            migrations.CreateModel(
                name='Artifact',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('file_type', models.CharField(max_length=40, verbose_name='type')),
                    ('name', models.CharField(max_length=300, verbose_name='file name')),
                    ('mime_type', models.CharField(blank=True, max_length=100, verbose_name='MIME type')),
                    ('sha256', models.CharField(max_length=64, verbose_name='SHA-256')),
                    ('size_bytes', models.PositiveBigIntegerField(default=0, verbose_name='bytes')),
                    ('state', models.CharField(choices=[('pending', 'waiting'), ('processing', 'being read'), ('ready', 'ready'), ('failed', 'failed')], default='pending', max_length=16, verbose_name='state')),
                    ('summary', models.TextField(blank=True, verbose_name='summary')),
                    ('keywords', models.JSONField(blank=True, default=list, verbose_name='keywords')),
                    ('entities', models.JSONField(blank=True, default=list, verbose_name='entities')),
                    ('rag_hints', models.JSONField(blank=True, default=list, verbose_name='answers')),
                    ('created_at', models.DateTimeField(verbose_name='created')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('message', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.message', verbose_name='message')),
                    ('updated_at', models.DateTimeField(auto_now=True, verbose_name='changed')),
                    ('text', models.TextField(blank=True, db_default='', verbose_name='text')),
                    ('is_cut', models.BooleanField(db_default=False, default=False, verbose_name='longer than what was read')),
                    ('described_by', models.CharField(blank=True, db_default='', max_length=200, verbose_name='described by')),
                    ('attempts', models.PositiveIntegerField(db_default=0, default=0, verbose_name='attempts')),
                    ('due_at', models.DateTimeField(blank=True, null=True, verbose_name='again at')),
                    ('fault', models.TextField(blank=True, db_default='', verbose_name='fault')),
                    ('read_at', models.DateTimeField(blank=True, null=True, verbose_name='was read')),
                ],
                options={
                    'verbose_name': 'artifact',
                    'verbose_name_plural': 'artifacts',
                    'ordering': ('-created_at', '-id'),
                    'constraints': [models.UniqueConstraint(fields=('owner', 'sha256'), name='artifact_once')],
                },
            ),
            migrations.CreateModel(
                name='Fact',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('relation', models.CharField(max_length=100, verbose_name='relation')),
                    ('category', models.CharField(max_length=100, verbose_name='category')),
                    ('content', models.TextField(verbose_name='content')),
                    ('type', models.CharField(choices=[('identity', 'identity'), ('context', 'context'), ('status', 'status')], max_length=16, verbose_name='type')),
                    ('importance', models.PositiveSmallIntegerField(verbose_name='importance')),
                    ('created_at', models.DateTimeField(verbose_name='created')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('topic', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.topic', verbose_name='topic')),
                    ('superseded_at', models.DateTimeField(blank=True, null=True, verbose_name='true until')),
                ],
                options={
                    'verbose_name': 'fact',
                    'verbose_name_plural': 'facts',
                    'ordering': ('-importance', 'id'),
                    'constraints': [models.CheckConstraint(condition=models.Q(('importance__lte', 100)), name='fact_importance_0_to_100'), models.UniqueConstraint(condition=models.Q(('superseded_at__isnull', True)), fields=('owner', 'relation', 'content'), name='fact_once')],
                },
            ),
            migrations.CreateModel(
                name='TopicMessage',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.message')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('topic', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topic')),
                ],
                options={
                    'verbose_name': 'message of a topic',
                    'verbose_name_plural': 'messages of topics',
                    'constraints': [models.UniqueConstraint(fields=('topic', 'message'), name='topicmessage_once')],
                },
            ),
            migrations.CreateModel(
                name='TopicVector',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('vector', pgvector.django.halfvec.HalfVectorField(verbose_name='vector')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='memoryapp.embeddingprofile')),
                    ('topic', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topic')),
                ],
                options={
                    'verbose_name': 'topic vector',
                    'verbose_name_plural': 'topic vectors',
                    'indexes': [models.Index(fields=['owner', 'profile'], name='topicvector_owner')],
                    'constraints': [models.UniqueConstraint(fields=('topic', 'profile'), name='topicvector_once')],
                },
            ),
            migrations.CreateModel(
                name='ApiToken',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=200, verbose_name='name')),
                    ('prefix', models.CharField(max_length=16, verbose_name='begins with')),
                    ('digest', models.CharField(max_length=64, unique=True, verbose_name='SHA-256')),
                    ('scopes', models.JSONField(default=list, verbose_name='may')),
                    ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                    ('last_used_at', models.DateTimeField(blank=True, null=True, verbose_name='last used')),
                    ('revoked_at', models.DateTimeField(blank=True, null=True, verbose_name='revoked')),
                    ('owners', models.ManyToManyField(blank=True, to='memoryapp.chatuser', verbose_name='chat users')),
                ],
                options={
                    'verbose_name': 'API token',
                    'verbose_name_plural': 'API tokens',
                    'ordering': ('-created_at', '-id'),
                },
            ),
            migrations.CreateModel(
                name='Card',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('text', models.TextField(verbose_name='text')),
                    ('terms', django.contrib.postgres.search.SearchVectorField(verbose_name='terms')),
                    ('term_count', models.PositiveIntegerField(verbose_name='words')),
                    ('made_from', models.DateTimeField(verbose_name='made from')),
                    ('artifact', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.artifact', verbose_name='artifact')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('person', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.person', verbose_name='person')),
                    ('is_wide', models.GeneratedField(db_persist=True, expression=django.db.models.lookups.GreaterThan(memoryapp.models.passage.OctetLength('text'), django.db.models.expressions.CombinedExpression(models.Value(1.3), '*', django.db.models.functions.text.Length('text'))), output_field=models.BooleanField(), verbose_name='beyond Latin')),
                ],
                options={
                    'verbose_name': 'card',
                    'verbose_name_plural': 'cards',
                    'indexes': [models.Index(fields=['owner'], include=('id', 'term_count', 'is_wide'), name='card_owner')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('person__isnull', True), ('artifact__isnull', True), _connector='XOR'), name='card_of_one_item')],
                },
            ),
            migrations.CreateModel(
                name='CardVector',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('dimensions', models.PositiveIntegerField(verbose_name='dimensions')),
                    ('vector', pgvector.django.halfvec.HalfVectorField(verbose_name='vector')),
                    ('card', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.card')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='memoryapp.embeddingprofile')),
                ],
                options={
                    'verbose_name': 'card vector',
                    'verbose_name_plural': 'card vectors',
                    'indexes': [models.Index(condition=models.Q(('dimensions__lte', 1024)), fields=['owner', 'profile'], include=('card', 'vector'), name='cardvector_search')],
                    'constraints': [models.UniqueConstraint(fields=('card', 'profile'), name='cardvector_once')],
                },
            ),
            migrations.CreateModel(
                name='Media',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('sha256', models.CharField(max_length=64, verbose_name='SHA-256')),
                    ('type', models.CharField(choices=[('image', 'image'), ('audio', 'audio'), ('file', 'file')], max_length=8, verbose_name='type')),
                    ('mime_type', models.CharField(blank=True, max_length=100, verbose_name='MIME type')),
                    ('name', models.CharField(blank=True, max_length=300, verbose_name='file name')),
                    ('size_bytes', models.PositiveBigIntegerField(verbose_name='bytes')),
                    ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ],
                options={
                    'verbose_name': 'media',
                    'verbose_name_plural': 'media',
                    'constraints': [models.UniqueConstraint(fields=('owner', 'sha256'), name='media_once')],
                },
            ),
            migrations.CreateModel(
                name='Prompt',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(choices=[('rerank', 'rerank'), ('enrich', 'enrich'), ('split', 'split'), ('merge', 'merge'), ('consolidate', 'consolidate'), ('extract', 'extract'), ('plan', 'plan'), ('expand', 'expand'), ('answer', 'answer'), ('describe', 'describe')], max_length=16, verbose_name='prompt')),
                    ('language', models.CharField(choices=[('en', 'English'), ('ru', 'Russian')], max_length=2, verbose_name='language')),
                    ('version', models.PositiveIntegerField(verbose_name='version')),
                    ('system', models.TextField(verbose_name='system message')),
                    ('user', models.TextField(verbose_name='user message')),
                    ('note', models.CharField(blank=True, max_length=500, verbose_name='what changed')),
                    ('made_by', models.CharField(max_length=200, verbose_name='by')),
                    ('made_at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                    ('in_force', models.BooleanField(default=False, verbose_name='in force')),
                    ('forced_at', models.DateTimeField(blank=True, null=True, verbose_name='in force since')),
                    ('forced_by', models.CharField(blank=True, db_default='', max_length=200, verbose_name='put in force by')),
                    ('replaced_at', models.DateTimeField(blank=True, null=True, verbose_name='in force until')),
                    ('replaced_by', models.CharField(blank=True, db_default='', max_length=200, verbose_name='replaced by')),
                ],
                options={
                    'verbose_name': 'prompt',
                    'verbose_name_plural': 'prompts',
                    'ordering': ('name', 'language', '-version'),
                    'constraints': [models.UniqueConstraint(fields=('name', 'language', 'version'), name='prompt_once'), models.UniqueConstraint(condition=models.Q(('in_force', True)), fields=('name', 'language'), name='prompt_one_in_force'), models.CheckConstraint(condition=models.Q(('version__gte', 1)), name='prompt_version_from_one')],
                },
            ),
            migrations.CreateModel(
                name='Run',
                fields=[
                    ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                    ('strategy', models.CharField(max_length=16, verbose_name='strategy')),
                    ('query', models.TextField(verbose_name='query')),
                    ('parameters', models.JSONField(blank=True, default=dict, verbose_name='parameters')),
                    ('prompt_version', models.CharField(blank=True, max_length=40, verbose_name='prompt version')),
                    ('state', models.CharField(choices=[('pending', 'waiting'), ('running', 'running'), ('finished', 'finished')], default='pending', max_length=16, verbose_name='state')),
                    ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='asked')),
                    ('heartbeat_at', models.DateTimeField(auto_now_add=True, verbose_name='last sign of life')),
                    ('finished_at', models.DateTimeField(blank=True, null=True, verbose_name='finished')),
                    ('fallback', models.CharField(blank=True, max_length=32, verbose_name='fallback')),
                    ('candidate_count', models.PositiveIntegerField(default=0, verbose_name='candidates')),
                    ('selected_count', models.PositiveIntegerField(default=0, verbose_name='topics chosen')),
                    ('turns', models.PositiveIntegerField(default=0, verbose_name='turns')),
                    ('tool_calls', models.PositiveIntegerField(default=0, verbose_name='tool calls')),
                    ('input_tokens', models.PositiveIntegerField(default=0, verbose_name='input tokens')),
                    ('output_tokens', models.PositiveIntegerField(default=0, verbose_name='output tokens')),
                    ('cost_usd', models.FloatField(default=0, verbose_name='cost, $')),
                    ('seconds', models.FloatField(default=0, verbose_name='seconds')),
                    ('evaluation', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.evaluation', verbose_name='evaluation')),
                    ('operator', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL, verbose_name='asked by')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('evidence', models.JSONField(blank=True, default=list, verbose_name='evidence')),
                    ('media', models.JSONField(blank=True, default=list, verbose_name='media')),
                    ('messages', models.JSONField(blank=True, null=True, verbose_name='conversation')),
                    ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.run', verbose_name='tries again')),
                    ('token', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.apitoken', verbose_name='API token')),
                    ('prompt', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.prompt', verbose_name='prompt')),
                    ('selected_people_count', models.PositiveIntegerField(db_default=0, default=0, verbose_name='people chosen')),
                    ('selected_artifact_count', models.PositiveIntegerField(db_default=0, default=0, verbose_name='artifacts chosen')),
                    ('stopped_by', models.CharField(blank=True, db_default='', max_length=150, verbose_name='stopped by')),
                ],
                options={
                    'verbose_name': 'run',
                    'verbose_name_plural': 'runs',
                    'ordering': ('-created_at', '-id'),
                    'indexes': [models.Index(fields=['owner', '-created_at', '-id'], name='run_owner'), models.Index(condition=models.Q(('state', 'finished'), _negated=True), fields=['heartbeat_at'], name='run_open')],
                },
            ),
            migrations.CreateModel(
                name='RunEvent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('seq', models.PositiveIntegerField(verbose_name='seq')),
                    ('kind', models.CharField(max_length=32, verbose_name='kind')),
                    ('at', models.DateTimeField(verbose_name='at')),
                    ('payload', models.JSONField(verbose_name='payload')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='memoryapp.run', verbose_name='run')),
                ],
                options={
                    'verbose_name': 'event',
                    'verbose_name_plural': 'events',
                    'ordering': ('run', 'seq'),
                    'constraints': [models.UniqueConstraint(fields=('run', 'seq'), name='runevent_once')],
                },
            ),
            migrations.CreateModel(
                name='QueryVector',
                fields=[
                    ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='memoryapp.run', verbose_name='run')),
                    ('vector', pgvector.django.halfvec.HalfVectorField(verbose_name='vector')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='memoryapp.embeddingprofile')),
                    ('typed_vector', pgvector.django.halfvec.HalfVectorField(null=True, verbose_name='vector of the query as typed')),
                ],
                options={
                    'verbose_name': 'query vector',
                    'verbose_name_plural': 'query vectors',
                },
            ),
            migrations.CreateModel(
                name='RunProgress',
                fields=[
                    ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='memoryapp.run', verbose_name='run')),
                    ('turn', models.PositiveIntegerField(verbose_name='turn')),
                    ('text', models.TextField(blank=True, verbose_name='text')),
                    ('reasoning', models.TextField(blank=True, verbose_name='reasoning')),
                    ('at', models.DateTimeField(verbose_name='at')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ],
                options={
                    'verbose_name': 'progress of a run',
                    'verbose_name_plural': 'progress of runs',
                },
            ),
            migrations.CreateModel(
                name='Heartbeat',
                fields=[
                    ('process', models.CharField(max_length=16, primary_key=True, serialize=False, verbose_name='process')),
                    ('at', models.DateTimeField(verbose_name='last sign of life')),
                ],
                options={
                    'verbose_name': 'sign of life',
                    'verbose_name_plural': 'signs of life',
                },
            ),
            migrations.CreateModel(
                name='LoginSession',
                fields=[
                    ('session_key', models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name='session key')),
                    ('session_data', models.TextField(verbose_name='session data')),
                    ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                    ('device', models.CharField(default='', max_length=300)),
                    ('address', models.GenericIPAddressField(null=True)),
                    ('seen_at', models.DateTimeField(null=True)),
                    ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'verbose_name': 'login session',
                    'verbose_name_plural': 'login sessions',
                    'abstract': False,
                },
            ),
            migrations.CreateModel(
                name='Erasure',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('owner_number', models.BigIntegerField(verbose_name='number of the chat user')),
                    ('actor', models.CharField(max_length=200, verbose_name='by')),
                    ('began_at', models.DateTimeField(auto_now_add=True, verbose_name='began')),
                    ('ended_at', models.DateTimeField(blank=True, null=True, verbose_name='ended')),
                    ('counts', models.JSONField(blank=True, default=dict, verbose_name='rows by table')),
                    ('cut_at', models.DateTimeField(blank=True, null=True, verbose_name='rows gone')),
                    ('kind', models.CharField(choices=[('user', 'chat user'), ('messages', 'messages'), ('topic', 'messages of a topic'), ('person', 'person')], default='user', max_length=16, verbose_name='kind')),
                    ('lengths', models.JSONField(blank=True, default=list, verbose_name='words of a mark')),
                    ('looked_again_at', models.DateTimeField(blank=True, null=True, verbose_name='looked again')),
                    ('marked_at', models.DateTimeField(blank=True, null=True, verbose_name='marks made')),
                    ('marks', models.BinaryField(blank=True, default=bytes, verbose_name='marks')),
                    ('messages', models.JSONField(blank=True, default=list, verbose_name='messages')),
                    ('person', models.BigIntegerField(blank=True, null=True, verbose_name='person')),
                    ('redacted', models.JSONField(blank=True, default=dict, verbose_name='rows redacted')),
                    ('residue', models.JSONField(blank=True, default=list, verbose_name='residue')),
                    ('salt', models.BinaryField(blank=True, default=bytes, verbose_name='salt')),
                    ('touched', models.JSONField(blank=True, default=list, verbose_name='topics touched')),
                    ('unmarked', models.PositiveIntegerField(default=0, verbose_name='texts without a mark')),
                    ('verified_at', models.DateTimeField(blank=True, null=True, verbose_name='checked')),
                    ('verify_asked_at', models.DateTimeField(blank=True, null=True, verbose_name='check asked for')),
                ],
                options={
                    'verbose_name': 'erasure',
                    'verbose_name_plural': 'erasures',
                    'ordering': ('-began_at', '-id'),
                    'constraints': [models.UniqueConstraint(condition=models.Q(('kind', 'user')), fields=('owner_number',), name='erasure_once')],
                },
            ),
            migrations.CreateModel(
                name='Work',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('import', 'Import'), ('archive', 'Archiving'), ('embed', 'Embedding'), ('consolidate', 'Consolidation'), ('extract', 'Extraction'), ('artifacts', 'Reading of files'), ('erase', 'Erasing')], max_length=16, verbose_name='kind')),
                    ('source', models.CharField(blank=True, max_length=300, verbose_name='source')),
                    ('state', models.CharField(choices=[('waiting', 'waiting'), ('going_on', 'going on'), ('done', 'done'), ('failed', 'failed')], max_length=16, verbose_name='state')),
                    ('worker', models.CharField(blank=True, max_length=100, verbose_name='worker')),
                    ('asked_by', models.CharField(blank=True, max_length=150, verbose_name='asked by')),
                    ('asked_at', models.DateTimeField(blank=True, null=True, verbose_name='asked')),
                    ('started_at', models.DateTimeField(blank=True, null=True, verbose_name='started')),
                    ('at', models.DateTimeField(auto_now=True, verbose_name='last sign of life')),
                    ('done', models.PositiveIntegerField(default=0, verbose_name='done')),
                    ('share', models.FloatField(default=0.0, verbose_name='share')),
                    ('fault', models.TextField(blank=True, verbose_name='fault')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ],
                options={
                    'verbose_name': 'background work',
                    'verbose_name_plural': 'background work',
                    'constraints': [models.UniqueConstraint(fields=('owner', 'kind', 'source'), name='work_once')],
                },
            ),
            migrations.CreateModel(
                name='RawReply',
                fields=[
                    ('event', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='raw_reply', serialize=False, to='memoryapp.runevent', verbose_name='event')),
                    ('message', models.TextField(verbose_name='message')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ],
                options={
                    'verbose_name': 'raw reply',
                    'verbose_name_plural': 'raw replies',
                },
            ),
            migrations.CreateModel(
                name='AgentCall',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('agent', models.CharField(choices=[('splitter', 'splitter'), ('merger', 'merger'), ('archivist', 'archivist'), ('describer', 'describer')], max_length=16, verbose_name='agent')),
                    ('topics', models.JSONField(blank=True, default=list, verbose_name='topics')),
                    ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                    ('model', models.CharField(blank=True, max_length=200, verbose_name='model')),
                    ('prompt_version', models.CharField(blank=True, max_length=40, verbose_name='prompt version')),
                    ('outcome', models.CharField(blank=True, max_length=32, verbose_name='outcome')),
                    ('input_tokens', models.PositiveBigIntegerField(default=0, verbose_name='input tokens')),
                    ('output_tokens', models.PositiveBigIntegerField(default=0, verbose_name='output tokens')),
                    ('cost_usd', models.FloatField(default=0, verbose_name='cost, $')),
                    ('seconds', models.FloatField(default=0, verbose_name='seconds')),
                    ('events', models.JSONField(blank=True, default=list, verbose_name='events')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('asked_by', models.CharField(blank=True, max_length=150, verbose_name='asked by')),
                    ('key', models.CharField(blank=True, max_length=64, verbose_name='key')),
                ],
                options={
                    'verbose_name': "agent's question",
                    'verbose_name_plural': "agents' questions",
                    'indexes': [models.Index(fields=['owner', '-at'], name='agentcall_owner'), models.Index(condition=models.Q(('outcome', '')), fields=['owner', 'key'], name='agentcall_answered')],
                },
            ),
            migrations.CreateModel(
                name='KnowledgeEdit',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('create', 'added'), ('edit', 'edited'), ('merge', 'merged'), ('delete', 'deleted'), ('replace', 'replaced'), ('undo', 'undone')], max_length=8, verbose_name='kind')),
                    ('noun', models.CharField(choices=[('person', 'person'), ('artifact', 'artifact'), ('fact', 'fact')], max_length=8, verbose_name='noun')),
                    ('before', models.JSONField(default=dict, verbose_name='before')),
                    ('after', models.JSONField(default=dict, verbose_name='after')),
                    ('actor', models.CharField(max_length=200, verbose_name='by')),
                    ('reason', models.CharField(blank=True, max_length=500, verbose_name='reason')),
                    ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('undoes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.knowledgeedit', verbose_name='undoes')),
                    ('call', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.agentcall', verbose_name="agent's question")),
                    ('batch', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.importbatch', verbose_name='import')),
                ],
                options={
                    'verbose_name': 'change',
                    'verbose_name_plural': 'changes',
                    'ordering': ('-at', '-id'),
                    'indexes': [models.Index(fields=['owner', '-at', '-id'], name='knowledgeedit_owner')],
                },
            ),
            migrations.CreateModel(
                name='StagePause',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('import', 'Import'), ('archive', 'Archiving'), ('embed', 'Embedding'), ('consolidate', 'Consolidation'), ('extract', 'Extraction'), ('artifacts', 'Reading of files'), ('erase', 'Erasing')], max_length=16, verbose_name='kind')),
                    ('by', models.CharField(max_length=150, verbose_name='paused by')),
                    ('at', models.DateTimeField(auto_now_add=True, verbose_name='paused')),
                ],
                options={
                    'verbose_name': 'pause of a stage',
                    'verbose_name_plural': 'pauses of stages',
                    'constraints': [models.UniqueConstraint(fields=('kind',), name='stagepause_once')],
                },
            ),
            migrations.CreateModel(
                name='Pause',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('import', 'Import'), ('archive', 'Archiving'), ('embed', 'Embedding'), ('consolidate', 'Consolidation'), ('extract', 'Extraction'), ('artifacts', 'Reading of files'), ('erase', 'Erasing')], max_length=16, verbose_name='kind')),
                    ('by', models.CharField(max_length=150, verbose_name='paused by')),
                    ('at', models.DateTimeField(auto_now_add=True, verbose_name='paused')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ],
                options={
                    'verbose_name': 'pause for a chat user',
                    'verbose_name_plural': 'pauses for chat users',
                    'constraints': [models.UniqueConstraint(fields=('owner', 'kind'), name='pause_once')],
                },
            ),
            migrations.CreateModel(
                name='Finding',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('noun', models.CharField(choices=[('person', 'person'), ('artifact', 'artifact'), ('fact', 'fact')], max_length=8, verbose_name='noun')),
                    ('state', models.CharField(choices=[('waiting', 'to be decided'), ('confirmed', 'confirmed'), ('rejected', 'rejected')], default='waiting', max_length=12, verbose_name='state')),
                    ('values', models.JSONField(default=dict, verbose_name='values')),
                    ('target', models.BigIntegerField(blank=True, null=True, verbose_name='would change')),
                    ('alike', models.JSONField(blank=True, default=list, verbose_name='may be the same as')),
                    ('row', models.BigIntegerField(blank=True, null=True, verbose_name='became')),
                    ('found_at', models.DateTimeField(auto_now_add=True, verbose_name='found')),
                    ('decided_at', models.DateTimeField(blank=True, null=True, verbose_name='decided')),
                    ('decided_by', models.CharField(blank=True, max_length=200, verbose_name='decided by')),
                    ('call', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.agentcall', verbose_name="agent's question")),
                    ('edit', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.knowledgeedit', verbose_name='change')),
                    ('follows', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.finding', verbose_name='would follow')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('topic', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.topic', verbose_name='topic')),
                ],
                options={
                    'verbose_name': 'finding',
                    'verbose_name_plural': 'findings',
                    'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['owner', 'id'], name='finding_queue'), models.Index(fields=['owner', 'noun', 'row'], name='finding_row')],
                },
            ),
            migrations.CreateModel(
                name='FindingMessage',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('finding', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.finding')),
                    ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.message')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ],
                options={
                    'verbose_name': 'message of a finding',
                    'verbose_name_plural': 'messages of findings',
                    'constraints': [models.UniqueConstraint(fields=('finding', 'message'), name='findingmessage_once')],
                },
            ),
            migrations.CreateModel(
                name='UnreadTopic',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('state', models.CharField(choices=[('waiting', 'waiting'), ('failed', 'failed')], max_length=8, verbose_name='state')),
                    ('attempts', models.PositiveIntegerField(default=0, verbose_name='attempts')),
                    ('due_at', models.DateTimeField(verbose_name='again at')),
                    ('fault', models.TextField(blank=True, verbose_name='fault')),
                    ('at', models.DateTimeField(auto_now=True, verbose_name='at')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('topic', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topic', verbose_name='topic')),
                ],
                options={
                    'verbose_name': 'unread topic',
                    'verbose_name_plural': 'unread topics',
                    'indexes': [models.Index(fields=['owner', 'state'], name='unreadtopic_owner')],
                },
            ),
            migrations.CreateModel(
                name='ImportFile',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('key', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                    ('source', models.CharField(max_length=300, verbose_name='source')),
                    ('size_bytes', models.PositiveBigIntegerField(verbose_name='size, bytes')),
                    ('format', models.CharField(blank=True, max_length=20, verbose_name='format')),
                    ('me', models.CharField(blank=True, max_length=200, verbose_name="the user's name in the file")),
                    ('start', models.DateTimeField(blank=True, null=True, verbose_name='began')),
                    ('addressee', models.CharField(blank=True, max_length=200, verbose_name='whose messages')),
                    ('state', models.CharField(choices=[('rehearsing', 'is looked through'), ('asking', 'needs an answer'), ('ready', 'waits for your decision'), ('importing', 'is imported'), ('paused', 'paused'), ('done', 'imported'), ('failed', 'failed')], default='rehearsing', max_length=16, verbose_name='state')),
                    ('findings', models.JSONField(blank=True, default=dict, verbose_name='findings')),
                    ('done', models.PositiveIntegerField(default=0, verbose_name='done')),
                    ('share', models.FloatField(default=0.0, verbose_name='share')),
                    ('fault', models.TextField(blank=True, verbose_name='fault')),
                    ('asked_by', models.CharField(max_length=150, verbose_name='asked by')),
                    ('asked_at', models.DateTimeField(auto_now_add=True, verbose_name='asked')),
                    ('started_at', models.DateTimeField(blank=True, null=True, verbose_name='started')),
                    ('at', models.DateTimeField(auto_now=True, verbose_name='last sign of life')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('takes_changes', models.BooleanField(db_default=False, default=False, verbose_name='with changed texts')),
                    ('timezone', models.CharField(blank=True, db_default='', max_length=64, verbose_name='time zone')),
                ],
                options={
                    'verbose_name': 'file to import',
                    'verbose_name_plural': 'files to import',
                    'ordering': ('-asked_at', '-id'),
                    'indexes': [models.Index(fields=['owner', '-asked_at'], name='importfile_owner')],
                },
            ),
            migrations.CreateModel(
                name='FilterPreset',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=60, verbose_name='name')),
                    ('initial_top_k', models.PositiveSmallIntegerField(verbose_name='candidates of the first stage')),
                    ('initial_threshold', models.FloatField(verbose_name='threshold of the first stage')),
                    ('threshold', models.FloatField(verbose_name='threshold')),
                    ('score_gap', models.FloatField(verbose_name='gap')),
                    ('final_top_k', models.PositiveSmallIntegerField(verbose_name='topics at most')),
                    ('made_by', models.CharField(max_length=200, verbose_name='by')),
                    ('made_at', models.DateTimeField(auto_now=True, verbose_name='at')),
                    ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.embeddingprofile', verbose_name='embedding profile')),
                ],
                options={
                    'verbose_name': 'filter preset',
                    'verbose_name_plural': 'filter presets',
                    'constraints': [models.UniqueConstraint(fields=('profile', 'name'), name='filterpreset_once')],
                },
            ),
            migrations.CreateModel(
                name='Judgement',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('is_good', models.BooleanField(verbose_name='good')),
                    ('at', models.DateTimeField(auto_now=True, verbose_name='at')),
                    ('operator', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL, verbose_name='judged by')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='judgements', to='memoryapp.run', verbose_name='run')),
                ],
                options={
                    'verbose_name': 'judgement',
                    'verbose_name_plural': 'judgements',
                    'ordering': ('-at', '-id'),
                    'constraints': [models.UniqueConstraint(fields=('run', 'operator'), name='judgement_once')],
                },
            ),
            migrations.CreateModel(
                name='EditedTopic',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('side', models.CharField(choices=[('out', 'taken out'), ('in', 'put in')], max_length=3, verbose_name='side')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('topic', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topic')),
                    ('edit', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topicedit')),
                ],
                options={
                    'verbose_name': 'topic of an edit',
                    'verbose_name_plural': 'topics of edits',
                    'constraints': [models.UniqueConstraint(fields=('edit', 'topic'), name='editedtopic_once')],
                },
            ),
            migrations.CreateModel(
                name='TopicEdit',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('archive', 'archived'), ('edit', 'edited'), ('merge', 'merged'), ('split', 'split'), ('move', 'moved messages'), ('resplit', 'split anew'), ('withdraw', 'withdrew messages'), ('reword', 'took changed texts'), ('undo', 'undone')], max_length=16, verbose_name='kind')),
                    ('actor', models.CharField(max_length=200, verbose_name='by')),
                    ('reason', models.CharField(blank=True, max_length=500, verbose_name='reason')),
                    ('at', models.DateTimeField(auto_now_add=True, verbose_name='at')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('topics', models.ManyToManyField(through='memoryapp.EditedTopic', to='memoryapp.topic', verbose_name='topics')),
                    ('undoes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topicedit', verbose_name='undoes')),
                    ('batch', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.RESTRICT, to='memoryapp.importbatch', verbose_name='import')),
                    ('call', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.agentcall', verbose_name="agent's question")),
                ],
                options={
                    'verbose_name': 'edit',
                    'verbose_name_plural': 'edits',
                    'ordering': ('-at', '-id'),
                    'indexes': [models.Index(fields=['owner', '-at', '-id'], name='topicedit_owner'), models.Index(fields=['owner', 'id'], name='topicedit_number')],
                },
            ),
            migrations.CreateModel(
                name='Suggestion',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('merge', 'merge'), ('split', 'split')], max_length=8, verbose_name='kind')),
                    ('key', models.CharField(max_length=64, verbose_name='key')),
                    ('topics', models.JSONField(default=list, verbose_name='topics')),
                    ('score', models.FloatField(default=0, verbose_name='score')),
                    ('evidence', models.JSONField(blank=True, default=dict, verbose_name='evidence')),
                    ('state', models.CharField(choices=[('open', 'open'), ('accepted', 'accepted'), ('never', 'never'), ('outdated', 'outdated'), ('declined', 'declined by the merger')], default='open', max_length=8, verbose_name='state')),
                    ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                    ('held_at', models.DateTimeField(blank=True, null=True, verbose_name='held since')),
                    ('decided_by', models.CharField(blank=True, max_length=200, verbose_name='decided by')),
                    ('decided_at', models.DateTimeField(blank=True, null=True, verbose_name='decided')),
                    ('edit', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.topicedit', verbose_name='edit')),
                    ('held_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL, verbose_name='held by')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('call', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='memoryapp.agentcall', verbose_name="agent's question")),
                    ('tries', models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name='questions without an answer')),
                ],
                options={
                    'verbose_name': 'suggestion',
                    'verbose_name_plural': 'suggestions',
                    'indexes': [models.Index(fields=['owner', 'state', '-score', '-id'], name='suggestion_queue')],
                    'constraints': [models.UniqueConstraint(fields=('owner', 'key'), name='suggestion_once')],
                },
            ),
            migrations.CreateModel(
                name='Passage',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('text', models.TextField(verbose_name='text')),
                    ('terms', django.contrib.postgres.search.SearchVectorField(verbose_name='terms')),
                    ('term_count', models.PositiveIntegerField(verbose_name='words')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('is_wide', models.GeneratedField(db_persist=True, expression=django.db.models.lookups.GreaterThan(memoryapp.models.passage.OctetLength('text'), django.db.models.expressions.CombinedExpression(models.Value(1.3), '*', django.db.models.functions.text.Length('text'))), output_field=models.BooleanField(), verbose_name='beyond Latin')),
                    ('messages', models.ManyToManyField(through='memoryapp.PassageMessage', to='memoryapp.message', verbose_name='messages')),
                ],
                options={
                    'verbose_name': 'passage',
                    'verbose_name_plural': 'passages',
                    'indexes': [django.contrib.postgres.indexes.GinIndex(fields=['terms'], name='passage_terms'), models.Index(fields=['owner'], include=('id', 'term_count', 'is_wide'), name='passage_owner')],
                },
            ),
            migrations.CreateModel(
                name='PassageMessage',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='memoryapp.message')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('passage', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.passage')),
                ],
                options={
                    'verbose_name': 'message of a passage',
                    'verbose_name_plural': 'messages of passages',
                    'indexes': [models.Index(fields=['owner'], include=('message', 'passage'), name='passagemessage_owner')],
                    'constraints': [models.UniqueConstraint(fields=('passage', 'message'), name='passagemessage_once')],
                },
            ),
            migrations.CreateModel(
                name='PassageVector',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('dimensions', models.PositiveIntegerField(verbose_name='dimensions')),
                    ('vector', pgvector.django.halfvec.HalfVectorField(verbose_name='vector')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                    ('passage', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.passage')),
                    ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='memoryapp.embeddingprofile')),
                    ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), null=True, verbose_name='made')),
                ],
                options={
                    'verbose_name': 'passage vector',
                    'verbose_name_plural': 'passage vectors',
                    'indexes': [models.Index(condition=models.Q(('dimensions__lte', 1024)), fields=['owner', 'profile'], include=('passage', 'vector'), name='passagevector_search'), models.Index(fields=['made_at'], include=('owner',), name='passagevector_made')],
                    'constraints': [models.UniqueConstraint(fields=('passage', 'profile'), name='passagevector_once')],
                },
            ),
            migrations.CreateModel(
                name='RefusedText',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('reason', models.CharField(max_length=500, verbose_name='reason')),
                    ('tries', models.PositiveIntegerField(default=1, verbose_name='tries')),
                    ('retry_at', models.DateTimeField(verbose_name='asked for again from')),
                    ('passage', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.passage')),
                    ('card', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.card')),
                    ('topic', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.topic')),
                    ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.embeddingprofile')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user')),
                ],
                options={
                    'verbose_name': 'refused text',
                    'verbose_name_plural': 'refused texts',
                    'constraints': [models.UniqueConstraint(fields=('profile', 'passage', 'card', 'topic'), name='refusedtext_once', nulls_distinct=False), models.CheckConstraint(condition=models.Q(models.Q(('card__isnull', True), ('passage__isnull', False), ('topic__isnull', True)), models.Q(('card__isnull', False), ('passage__isnull', True), ('topic__isnull', True)), models.Q(('card__isnull', True), ('passage__isnull', True), ('topic__isnull', False)), _connector='OR'), name='refusedtext_of_one')],
                },
            ),
        ]),
        *_statements('0003_curation_laws'),
        *_statements('0004_faster_search'),
        *_statements('0022_partial_erasure'),
    ]
