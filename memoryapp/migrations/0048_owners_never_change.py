"""A row stays in the memory in which it was created, whoever writes. Accesses are rows of operators."""

from django.db import migrations

TABLES = (
    *("agentcall", "artifact", "card", "cardvector", "editedtopic", "fact", "finding", "findingmessage"),
    *("importbatch", "importfile", "judgement", "knowledgeedit", "media", "message", "passage", "passagemessage"),
    *("passagevector", "pause", "person", "queryvector", "rawreply", "refusedtext", "run", "runevent", "runprogress"),
    *("suggestion", "topic", "topicedit", "topicmessage", "topicvector", "unreadtopic", "work"),
)

FUNCTION = """
CREATE FUNCTION memoryapp_refuse_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format(
        'A row of %s never changes its chat user: it is chat user %s''s and cannot become %s''s.',
        TG_TABLE_NAME, OLD.owner_id, NEW.owner_id);
END $$;
"""


def _law(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"""
        CREATE TRIGGER {table}_keeps_its_owner BEFORE UPDATE OF owner_id ON memoryapp_{table} FOR EACH ROW
        WHEN (OLD.owner_id IS DISTINCT FROM NEW.owner_id) EXECUTE FUNCTION memoryapp_refuse_owner()""",
        f"DROP TRIGGER {table}_keeps_its_owner ON memoryapp_{table}",
    )


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0047_embedding_prefixes")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION memoryapp_refuse_owner()"),
        *(_law(table) for table in TABLES),
    ]
