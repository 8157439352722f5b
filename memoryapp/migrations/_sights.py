"""What limited actors see: for each table of memories a view of the same name, in a schema of its own that their
connections find first (see ``platform.sights``).

A migration that changes these tables drops the views first and makes them again at its end: until they are there, no
limited actor is shown anything.
"""

import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from django.apps.registry import Apps
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from memoryapp.engine.cells import cell

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
    FOR law IN SELECT oid::regprocedure FROM pg_proc WHERE proname LIKE 'memoryapp\\_%'
        AND pronamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path TO %s', law, current_setting('search_path'));
    END LOOP;
END $$
"""
# The last edit of a memory, seen or not: it tells whether what was read before is still valid.
_EDITS = "CREATE VIEW memoryapp_anyedit AS SELECT id, at, owner_id AS memory FROM memoryapp_topicedit"


def sights(apps: Apps, tables: Collection[str] = tuple(SIGHTS), schema: str = SCHEMA) -> Iterator[str]:
    """The statements that make the views of these tables, of the schema at hand, in ``schema``."""
    yield f"CREATE SCHEMA {schema}"
    for table in (table for table in SIGHTS if table in tables):
        model = apps.get_model("memoryapp", table.removeprefix("memoryapp_"))
        columns = ", ".join(f'"{name}"' for name in sorted(field.column for field in model._meta.local_fields))
        condition = SIGHTS[table].replace("{own}", _OWN).replace("{seen}", schema)
        option = "WITH LOCAL CHECK OPTION" if table.removeprefix("memoryapp_") in LABELLED else ""
        yield _VIEW.format(seen=schema, table=table, columns=columns, condition=condition, option=option)
    yield _EDITS
    yield _LAWS


def make_sights(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace")
        here = {name for (name,) in cursor.fetchall()}
    for statement in sights(apps, here, _schema()):
        schema_editor.execute(statement, params=None)


def drop_sights(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    schema_editor.execute("DROP VIEW IF EXISTS memoryapp_anyedit")
    schema_editor.execute(f"DROP SCHEMA IF EXISTS {_schema()} CASCADE")


def _schema() -> str:
    return f"memoryapp_cell_{cell()}_seen" if cell() else SCHEMA
