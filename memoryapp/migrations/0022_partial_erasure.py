"""Messages and people erased out of a memory that stays, and marks by which residue is found.

The laws of topics and history yield to an erasure that has begun, in the transaction that names it, and to nobody else.
"""

from django.db import migrations, models

IS_ERASING = """
CREATE FUNCTION memoryapp_is_erasing(owner bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memoryapp_erasure
        WHERE id = nullif(current_setting('memoryapp.erasure', true), '')::bigint AND owner_number = owner
        AND looked_again_at IS NULL)
$$;
"""
REFUSE_CHANGE = """
CREATE OR REPLACE FUNCTION memoryapp_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {yield}
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(TG_ARGV[0], OLD.id);
END $$;
"""
REFUSE_LOSS = """
CREATE OR REPLACE FUNCTION memoryapp_refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {yield}
    IF EXISTS (SELECT FROM memoryapp_chatuser WHERE id = OLD.owner_id AND erasing_since IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'History stays: row %s of %s goes only when its chat user is erased.', OLD.id, TG_TABLE_NAME);
    END IF;
    RETURN NULL;
END $$;
"""
YIELDS = "IF memoryapp_is_erasing(OLD.owner_id) THEN RETURN {}; END IF;"


def _law(function: str, result: str) -> migrations.RunSQL:
    return migrations.RunSQL(function.replace("{yield}", YIELDS.format(result)), function.replace("{yield}", ""))


class Migration(migrations.Migration):

    dependencies = [
        ('memoryapp', '0021_import_files'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='erasure',
            name='erasure_once',
        ),
        migrations.AddField(
            model_name='erasure',
            name='cut_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='rows gone'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='kind',
            field=models.CharField(choices=[('user', 'chat user'), ('messages', 'messages'), ('topic', 'messages of a topic'), ('person', 'person')], default='user', max_length=16, verbose_name='kind'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='lengths',
            field=models.JSONField(blank=True, default=list, verbose_name='words of a mark'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='looked_again_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='looked again'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='marked_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='marks made'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='marks',
            field=models.BinaryField(blank=True, default=bytes, verbose_name='marks'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='messages',
            field=models.JSONField(blank=True, default=list, verbose_name='messages'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='person',
            field=models.BigIntegerField(blank=True, null=True, verbose_name='person'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='redacted',
            field=models.JSONField(blank=True, default=dict, verbose_name='rows redacted'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='residue',
            field=models.JSONField(blank=True, default=list, verbose_name='residue'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='salt',
            field=models.BinaryField(blank=True, default=bytes, verbose_name='salt'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='touched',
            field=models.JSONField(blank=True, default=list, verbose_name='topics touched'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='unmarked',
            field=models.PositiveIntegerField(default=0, verbose_name='texts without a mark'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='verified_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='checked'),
        ),
        migrations.AddField(
            model_name='erasure',
            name='verify_asked_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='check asked for'),
        ),
        migrations.AddField(
            model_name='topic',
            name='erased_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='messages erased'),
        ),
        migrations.AddConstraint(
            model_name='erasure',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'user')), fields=('owner_number',), name='erasure_once'),
        ),
        migrations.RunSQL(IS_ERASING, 'DROP FUNCTION memoryapp_is_erasing'),
        _law(REFUSE_CHANGE, 'NEW'),
        _law(REFUSE_LOSS, 'NULL'),
    ]
