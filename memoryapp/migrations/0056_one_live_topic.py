"""A message is listed by one live topic: whoever moves it to another retires the one that it was in."""

from django.db import migrations

FUNCTION = """
CREATE OR REPLACE FUNCTION memoryapp_messages_are_placed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wrong record;
BEGIN
    -- Not joined with the rows as they were: that plan, kept from a small update, is quadratic in a large one.
    SELECT n.id, n.topic_id INTO wrong
    FROM new_rows n
    WHERE n.topic_id IS DISTINCT FROM ({live})
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = CASE WHEN wrong.topic_id IS NULL
            THEN format('Message %s is held by a live topic and cannot leave it alone.', wrong.id)
            ELSE format('Message %s cannot point at Topic:%s, which does not hold it{alone}.', wrong.id, wrong.topic_id)
        END;
    END IF;
    RETURN NULL;
END $$
"""
HELD = "FROM memoryapp_topicmessage tm JOIN memoryapp_topic t ON t.id = tm.topic_id AND t.is_live WHERE tm.message_id = n.id"
# No topic has the number -1.
ONE = FUNCTION.replace(
    "{live}", f"SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN min(tm.topic_id) ELSE -1 END {HELD}"
).replace("{alone}", " alone")
ANY = FUNCTION.replace(
    "{live}", f"SELECT tm.topic_id {HELD} AND tm.topic_id = coalesce(n.topic_id, tm.topic_id) LIMIT 1"
).replace("{alone}", "")


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0055_fact_once_by_hash"),)

    operations = (migrations.RunSQL(ONE, ANY),)
