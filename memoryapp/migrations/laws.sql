-- The laws of the rows that no key and no constraint can say, kept by the database whoever writes: a constraint sees one
-- row and a key two, but that live topics partition the archived messages concerns many; and none of them compares a row
-- with what it was, as "what a topic says never changes" and "history stays" do.
--
-- What a swap only reaches at its end is checked when the transaction ends, a query a topic; what holds after each of
-- its statements is checked after the statement, set by set, so that large changes stay fast. The laws of topics and
-- history yield to an erasure that has begun, in the transaction that names it, and to nobody else.

CREATE FUNCTION memoryapp_is_erasing(owner bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memoryapp_erasure
        WHERE id = nullif(current_setting('memoryapp.erasure', true), '')::bigint AND owner_number = owner
        AND looked_again_at IS NULL)
$$;

CREATE FUNCTION memoryapp_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF memoryapp_is_erasing(OLD.owner_id) THEN RETURN NEW; END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(TG_ARGV[0], OLD.id);
END $$;

CREATE FUNCTION memoryapp_refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF memoryapp_is_erasing(OLD.owner_id) THEN RETURN NULL; END IF;
    IF EXISTS (SELECT FROM memoryapp_chatuser WHERE id = OLD.owner_id AND erasing_since IS NULL) THEN
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
    -- A message is listed by one live topic; no topic has the number -1.
    SELECT n.id, n.topic_id INTO wrong
    FROM new_rows n
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

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['topicmessage', 'topicedit', 'editedtopic'] LOOP
        EXECUTE format('CREATE TRIGGER %1$s_never_changes BEFORE UPDATE ON memoryapp_%1$s FOR EACH ROW
            EXECUTE FUNCTION memoryapp_refuse_change(
                ''History stays as it was: row %%s of %1$s cannot change.'')', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['topic', 'topicmessage', 'topicedit', 'editedtopic'] LOOP
        EXECUTE format('CREATE CONSTRAINT TRIGGER %1$s_stays AFTER DELETE ON memoryapp_%1$s
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memoryapp_refuse_loss()', name);
    END LOOP;
END $$;

-- No law, but as near to the rows: a run stores some 100 KB of JSON, and a third of what its storing costs the server
-- is compression. lz4 is faster; a server without it does not compress.
DO $$ BEGIN
    ALTER TABLE memoryapp_runevent ALTER COLUMN payload SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    ALTER TABLE memoryapp_runevent ALTER COLUMN payload SET STORAGE EXTERNAL;
END $$;
