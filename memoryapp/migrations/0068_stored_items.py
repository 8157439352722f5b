"""Items that programs keep for a chat user, and their vectors."""

import django.contrib.postgres.fields
import django.db.models.deletion
import pgvector.django.halfvec
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memoryapp', '0067_saved_views'),
    ]

    operations = [
        migrations.CreateModel(
            name='ItemVector',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('vector', pgvector.django.halfvec.HalfVectorField(verbose_name='vector')),
            ],
            options={
                'verbose_name': 'item vector',
                'verbose_name_plural': 'item vectors',
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
            ],
            options={
                'verbose_name': 'stored item',
                'verbose_name_plural': 'stored items',
            },
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
            model_name='itemvector',
            name='owner',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user'),
        ),
        migrations.AddField(
            model_name='itemvector',
            name='profile',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='memoryapp.embeddingprofile'),
        ),
        migrations.AddField(
            model_name='storeditem',
            name='owner',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.chatuser', verbose_name='chat user'),
        ),
        migrations.AddField(
            model_name='itemvector',
            name='item',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='memoryapp.storeditem'),
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
        migrations.AddIndex(
            model_name='storeditem',
            index=models.Index(fields=['owner', '-updated_at', '-id'], name='storeditem_latest'),
        ),
        migrations.AddConstraint(
            model_name='storeditem',
            constraint=models.UniqueConstraint(fields=('owner', 'namespace', 'key'), name='storeditem_once'),
        ),
        migrations.AddIndex(
            model_name='itemvector',
            index=models.Index(fields=['owner', 'profile'], name='itemvector_owner'),
        ),
        migrations.AddConstraint(
            model_name='itemvector',
            constraint=models.UniqueConstraint(fields=('item', 'profile'), name='itemvector_once'),
        ),
        *(
            migrations.RunSQL(
                f"""
                CREATE TRIGGER {table}_keeps_its_owner BEFORE UPDATE OF owner_id ON memoryapp_{table}
                FOR EACH ROW WHEN (OLD.owner_id IS DISTINCT FROM NEW.owner_id) EXECUTE FUNCTION memoryapp_refuse_owner()""",
                f"DROP TRIGGER {table}_keeps_its_owner ON memoryapp_{table}",
            )
            for table in ("storeditem", "itemvector")
        ),
    ]
