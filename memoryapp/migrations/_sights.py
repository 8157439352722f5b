"""What limited actors see: for each table of memories a view of the same name, in a schema of its own that their
connections find first (see ``platform.sights``).

A migration that changes these tables drops the views first and makes them again at its end: until they are there, no
limited actor is shown anything.
"""

import tomllib
from pathlib import Path

from django.apps.registry import Apps
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

SCHEMA = "memoryapp_seen"
SIGHTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("sights.toml").read_text(encoding="utf-8"))
# Of labels that are rows of a memory's own: what is written through a view has to be seen through it.
LABELLED = ("message", "topic", "fact", "person", "artifact")
# Read once for a statement.
_OWN = "((SELECT current_setting('memoryapp.projects')::text[])::text[])"
_VIEW = """CREATE VIEW {seen}.{table} AS SELECT {columns} FROM {table} AS this WHERE {condition} {option}"""
# Laws that the database keeps look at the tables, whoever writes.
_LAWS = """
DO $$
DECLARE law regprocedure;
BEGIN
    FOR law IN SELECT oid::regprocedure FROM pg_proc WHERE proname LIKE 'memoryapp\\_%' LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path FROM CURRENT', law);
    END LOOP;
END $$
"""
# The last edit of a memory, seen or not: it tells whether what was read before is still valid.
_EDITS = "CREATE VIEW memoryapp_anyedit AS SELECT id, at, owner_id AS memory FROM memoryapp_topicedit"


def make_sights(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    schema_editor.execute(f"CREATE SCHEMA {SCHEMA}")
    for table, condition in SIGHTS.items():
        model = apps.get_model("memoryapp", table.removeprefix("memoryapp_"))
        columns = ", ".join(f'"{name}"' for name in sorted(field.column for field in model._meta.local_fields))
        written = condition.replace("{own}", _OWN).replace("{seen}", SCHEMA)
        option = "WITH LOCAL CHECK OPTION" if table.removeprefix("memoryapp_") in LABELLED else ""
        view = _VIEW.format(seen=SCHEMA, table=table, columns=columns, condition=written, option=option)
        schema_editor.execute(view, params=None)
    schema_editor.execute(_EDITS)
    schema_editor.execute(_LAWS, params=None)


def drop_sights(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    schema_editor.execute("DROP VIEW IF EXISTS memoryapp_anyedit")
    schema_editor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
