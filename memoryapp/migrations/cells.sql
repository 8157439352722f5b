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
