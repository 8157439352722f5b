"""The laws of topics, kept by the database whoever writes.

Live topics partition the archived messages, what a topic says never changes, and history stays. What a swap only
reaches at its end is looked at when the transaction ends, a query a topic; what holds after each of its statements
is looked at after the statement, set by set, so that large changes stay fast.
"""

import django.db.models.deletion
from django.db import migrations, models

HISTORY = ("topicmessage", "topicedit", "editedtopic")

FUNCTIONS = """
CREATE FUNCTION memoryapp_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(TG_ARGV[0], OLD.id);
END $$;

CREATE FUNCTION memoryapp_refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM memoryapp_chatuser WHERE id = OLD.owner_id) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'History stays: row %s of %s goes only when its chat user is erased.', OLD.id, TG_TABLE_NAME);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION memoryapp_topic_is_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    topic memoryapp_topic;
    listed integer;
    held integer;
    pointing integer;
BEGIN
    SELECT * INTO topic FROM memoryapp_topic WHERE id = NEW.id;
    IF topic.id IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO pointing FROM memoryapp_message WHERE topic_id = topic.id;
    IF NOT topic.is_live THEN
        IF pointing > 0 THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
                'Topic:%s is retired, but %s messages still point at it.', topic.id, pointing);
        END IF;
        RETURN NULL;
    END IF;
    SELECT count(*), count(*) FILTER (WHERE m.topic_id = topic.id) INTO listed, held
    FROM memoryapp_topicmessage tm JOIN memoryapp_message m ON m.id = tm.message_id WHERE tm.topic_id = topic.id;
    IF listed = 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'Topic:%s is live and holds no message.', topic.id);
    END IF;
    IF listed <> topic.message_count OR held <> listed OR pointing <> listed THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'Topic:%s counts %s messages and lists %s, of which %s point at it, as do %s in all.',
            topic.id, topic.message_count, listed, held, pointing);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION memoryapp_message_is_placed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM memoryapp_message m WHERE m.id = NEW.id AND m.topic_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM memoryapp_topicmessage tm JOIN memoryapp_topic t ON t.id = tm.topic_id AND t.is_live
            WHERE tm.topic_id = m.topic_id AND tm.message_id = m.id)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'Message %s points at Topic:%s, which does not hold it.', NEW.id, NEW.topic_id);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION memoryapp_messages_are_placed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wrong record;
BEGIN
    -- Not joined with the rows as they were: that plan, kept from a small update, is quadratic in a large one.
    SELECT n.id, n.topic_id INTO wrong
    FROM new_rows n
    WHERE n.topic_id IS DISTINCT FROM (
        SELECT tm.topic_id FROM memoryapp_topicmessage tm JOIN memoryapp_topic t ON t.id = tm.topic_id AND t.is_live
        WHERE tm.message_id = n.id AND tm.topic_id = coalesce(n.topic_id, tm.topic_id) LIMIT 1)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = CASE WHEN wrong.topic_id IS NULL
            THEN format('Message %s is held by a live topic and cannot leave it alone.', wrong.id)
            ELSE format('Message %s cannot point at Topic:%s, which does not hold it.', wrong.id, wrong.topic_id)
        END;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION memoryapp_topics_list_no_more() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wrong bigint;
BEGIN
    SELECT t.id INTO wrong
    FROM (SELECT DISTINCT topic_id FROM new_rows) touched JOIN memoryapp_topic t ON t.id = touched.topic_id
    WHERE t.message_count < (SELECT count(*) FROM memoryapp_topicmessage tm WHERE tm.topic_id = t.id)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'Topic:%s never changes: it has all its messages already.', wrong);
    END IF;
    RETURN NULL;
END $$;
"""

TRIGGERS = """
CREATE TRIGGER topic_never_changes BEFORE UPDATE ON memoryapp_topic FOR EACH ROW
WHEN ((OLD.id, OLD.owner_id, OLD.summary, OLD.started_at, OLD.ended_at, OLD.message_count, OLD.size_chars,
       OLD.created_at) IS DISTINCT FROM
      (NEW.id, NEW.owner_id, NEW.summary, NEW.started_at, NEW.ended_at, NEW.message_count, NEW.size_chars,
       NEW.created_at))
EXECUTE FUNCTION memoryapp_refuse_change('Topic:%s never changes in what it says: an edit swaps it for another.');

CREATE CONSTRAINT TRIGGER topic_is_whole AFTER INSERT OR UPDATE OF is_live ON memoryapp_topic
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memoryapp_topic_is_whole();

CREATE CONSTRAINT TRIGGER message_is_placed AFTER INSERT ON memoryapp_message
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.topic_id IS NOT NULL)
EXECUTE FUNCTION memoryapp_message_is_placed();

CREATE TRIGGER messages_are_placed AFTER UPDATE ON memoryapp_message
REFERENCING NEW TABLE AS new_rows
FOR EACH STATEMENT EXECUTE FUNCTION memoryapp_messages_are_placed();

CREATE TRIGGER topics_list_no_more AFTER INSERT ON memoryapp_topicmessage
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION memoryapp_topics_list_no_more();
"""

DROP = """
DROP FUNCTION memoryapp_refuse_change, memoryapp_refuse_loss, memoryapp_topic_is_whole, memoryapp_message_is_placed,
              memoryapp_messages_are_placed, memoryapp_topics_list_no_more CASCADE
"""


def _fixed(table: str) -> str:
    return f"""
    CREATE TRIGGER {table}_never_changes BEFORE UPDATE ON memoryapp_{table} FOR EACH ROW
    EXECUTE FUNCTION memoryapp_refuse_change('History stays as it was: row %s of {table} cannot change.')"""


def _lasting(table: str) -> str:
    return f"""
    CREATE CONSTRAINT TRIGGER {table}_stays AFTER DELETE ON memoryapp_{table}
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memoryapp_refuse_loss()"""


class Migration(migrations.Migration):

    dependencies = [
        ('memoryapp', '0002_doors_and_curation'),
    ]

    operations = [
        migrations.AddField(
            model_name='topicedit',
            name='batch',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.RESTRICT, to='memoryapp.importbatch', verbose_name='import'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.CheckConstraint(condition=models.Q(('is_withdrawn', False), ('topic__isnull', True), _connector='OR'), name='message_withdrawn_from_topics'),
        ),
        migrations.RunSQL(FUNCTIONS, DROP),
        migrations.RunSQL(TRIGGERS, migrations.RunSQL.noop),
        *(migrations.RunSQL(_fixed(table), migrations.RunSQL.noop) for table in HISTORY),
        *(migrations.RunSQL(_lasting(table), migrations.RunSQL.noop) for table in ("topic", *HISTORY)),
    ]
