"""A chat user that is being erased: hidden, its history free to go, and what remains afterwards is a receipt."""

from django.db import migrations, models

REFUSE_LOSS = """
CREATE OR REPLACE FUNCTION memoryapp_refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM memoryapp_chatuser WHERE id = OLD.owner_id {standing}) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'History stays: row %s of %s goes only when its chat user is erased.', OLD.id, TG_TABLE_NAME);
    END IF;
    RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('memoryapp', '0010_login_sessions'),
    ]

    operations = [
        migrations.AddField(
            model_name='chatuser',
            name='erasing_since',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='being erased since'),
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
            ],
            options={
                'verbose_name': 'erasure',
                'verbose_name_plural': 'erasures',
                'ordering': ('-began_at', '-id'),
                'constraints': [models.UniqueConstraint(fields=('owner_number',), name='erasure_once')],
            },
        ),
        migrations.RunSQL(
            REFUSE_LOSS.format(standing='AND erasing_since IS NULL'), REFUSE_LOSS.format(standing='')
        ),
    ]
