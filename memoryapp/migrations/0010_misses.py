"""Misses: what an assistant forgot, and what was done about it."""

import django.db.models.deletion
from django.db import migrations, models

from memoryapp.migrations._keys import make_keys, make_plain_keys


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0009_least_certainty")]

    operations = [
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
            options={
                'verbose_name': 'miss',
                'verbose_name_plural': 'misses',
                'ordering': ('-at', '-id'),
                'indexes': [models.Index(fields=['owner', '-at', '-id'], name='miss_owner'), models.Index(condition=models.Q(('stage', ''), ('state', 'open')), fields=['id'], name='miss_unexplained')],
            },
        ),
        migrations.RunPython(make_keys, make_plain_keys),
    ]
