-- The audit log only grows: an entry is sealed once, and goes only with everything sealed before it, when its days are
-- over and the transaction says so (`memoryapp.audit_until`, which only retention sets).

CREATE FUNCTION memoryapp_audit_is_sealed_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.seal <> '' OR NEW.former <> '' OR NEW.place IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'An entry of the audit log begins unsealed.';
        END IF;
    ELSIF OLD.seal <> '' OR NEW.seal = '' OR NEW.place IS NULL OR
        (OLD.id, OLD.at, OLD.who, OLD.door, OLD.deed, OLD.owner_number, OLD.what, OLD.address) IS DISTINCT FROM
        (NEW.id, NEW.at, NEW.who, NEW.door, NEW.deed, NEW.owner_number, NEW.what, NEW.address) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
            'Entry %s of the audit log never changes.', OLD.id);
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION memoryapp_audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := nullif(current_setting('memoryapp.audit_until', true), '')::timestamptz;
BEGIN
    IF EXISTS (SELECT FROM old_rows WHERE seal = '' OR until IS NULL OR at >= until) OR EXISTS (
        SELECT FROM memoryapp_auditentry WHERE place < (SELECT max(place) FROM old_rows)) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE =
            'The audit log stays: only its oldest sealed entries go, when their days are over.';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION memoryapp_audit_is_not_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM memoryapp_auditentry) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'The audit log stays: it cannot be emptied.';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER auditentry_is_sealed_once BEFORE INSERT OR UPDATE ON memoryapp_auditentry
FOR EACH ROW EXECUTE FUNCTION memoryapp_audit_is_sealed_once();

CREATE TRIGGER auditentry_stays AFTER DELETE ON memoryapp_auditentry
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION memoryapp_audit_stays();

CREATE TRIGGER auditentry_is_not_emptied BEFORE TRUNCATE ON memoryapp_auditentry
FOR EACH STATEMENT EXECUTE FUNCTION memoryapp_audit_is_not_emptied();
