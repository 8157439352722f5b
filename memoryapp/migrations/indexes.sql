-- Indexes that no model declares.

-- An index by owner for every table of memories that has none: without it, the database reads everybody's rows to erase,
-- export or check one memory. The delete of a chat user looks into each of these tables, too.
DO $$ DECLARE memory record; BEGIN
    FOR memory IN
        SELECT t.oid::regclass AS name, t.relname FROM pg_class t
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'owner_id' AND a.attnotnull AND NOT a.attisdropped
        WHERE t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace AND NOT EXISTS (
            SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indkey[0] = a.attnum AND i.indpred IS NULL
        )
    LOOP
        EXECUTE format('CREATE INDEX %I ON %s (owner_id)', memory.relname || '_by_owner', memory.name);
    END LOOP;
END $$;

-- The topics that a sweep has not looked at yet, among those of all.
CREATE INDEX IF NOT EXISTS topic_unread ON memoryapp_topic (owner_id) WHERE is_live AND NOT facts_extracted;
CREATE INDEX IF NOT EXISTS topic_unchecked ON memoryapp_topic (owner_id) WHERE is_live AND NOT consolidation_checked;

-- The work that may rest after a fault, which every sweep leaves out.
CREATE INDEX IF NOT EXISTS work_failed ON memoryapp_work (kind) WHERE tries > 0;
