-- History also yields where its memory is moved: then the chat user lies in another cell when the transaction ends.
CREATE OR REPLACE FUNCTION memoryapp_refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF memoryapp_is_erasing(OLD.owner_id) THEN RETURN NULL; END IF;
    IF EXISTS (
        SELECT FROM memoryapp_chatuser WHERE id = OLD.owner_id AND erasing_since IS NULL
        AND cell = coalesce(substring(TG_TABLE_SCHEMA FROM '^memoryapp_cell_(\d+)$'), '0')::smallint
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'History stays: row %s of %s goes only when its chat user is erased.', OLD.id, TG_TABLE_NAME);
    END IF;
    RETURN NULL;
END $$;

-- Citus plans no statement that reads a transition table beside others, so its rows are taken into arrays first.
CREATE OR REPLACE FUNCTION memoryapp_messages_are_placed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    topics bigint[];
    wrong record;
BEGIN
    SELECT array_agg(id), array_agg(topic_id) INTO ids, topics FROM new_rows;
    -- A message is listed by one live topic; no topic has the number -1. Counted for each row: a join's plan, kept from
    -- a small update, is quadratic in a large one.
    SELECT n.id, n.topic_id INTO wrong
    FROM unnest(ids, topics) AS n (id, topic_id)
    WHERE n.topic_id IS DISTINCT FROM (
        SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN min(tm.topic_id) ELSE -1 END
        FROM memoryapp_topicmessage tm JOIN memoryapp_topic t ON t.id = tm.topic_id AND t.is_live
        WHERE tm.message_id = n.id)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = CASE WHEN wrong.topic_id IS NULL
            THEN format('Message %s is held by a live topic and cannot leave it alone.', wrong.id)
            ELSE format('Message %s cannot point at Topic:%s, which does not hold it alone.', wrong.id, wrong.topic_id)
        END;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION memoryapp_topics_list_no_more() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touched bigint[];
    wrong bigint;
BEGIN
    SELECT array_agg(DISTINCT topic_id) INTO touched FROM new_rows;
    SELECT t.id INTO wrong
    FROM memoryapp_topic t
    WHERE t.id = ANY(touched)
    AND t.message_count < (SELECT count(*) FROM memoryapp_topicmessage tm WHERE tm.topic_id = t.id)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'Topic:%s never changes: it has all its messages already.', wrong);
    END IF;
    RETURN NULL;
END $$;

-- Nor does it look at a setting where it reads the table.
CREATE OR REPLACE FUNCTION memoryapp_is_erasing(owner bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    named bigint := nullif(current_setting('memoryapp.erasure', true), '');
BEGIN
    RETURN named IS NOT NULL AND EXISTS (
        SELECT FROM memoryapp_erasure WHERE id = named AND owner_number = owner AND looked_again_at IS NULL);
END $$;
