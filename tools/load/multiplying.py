"""One memory, many times: the rows of a chat user copied inside the database, with ids and owners of their own."""

from dataclasses import dataclass

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

# Ids of one copy lie this far from those of the next.
SPAN = 1_000_000
AT_ONCE = 100

_COLUMNS = """
SELECT c.relname AS table, a.attname AS name, a.atttypid = 'uuid'::regtype AS is_uuid,
    EXISTS (
        SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.conrelid = c.oid AND a.attnum = ANY(k.conkey)
        AND (k.confrelid = 'memoryapp_chatuser'::regclass OR EXISTS (
            SELECT FROM pg_attribute o WHERE o.attrelid = k.confrelid AND o.attname = 'owner_id'
        ))
    ) AS is_reference,
    a.attidentity <> '' AS is_identity
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
    AND EXISTS (SELECT FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'owner_id')
ORDER BY c.relname, a.attnum
"""
_USER = """
INSERT INTO memoryapp_chatuser (id, name, display_name, profile, created_at, consolidation, extraction)
OVERRIDING SYSTEM VALUE
SELECT id + k * %(span)s, name || '-' || k, '', profile, created_at, consolidation, extraction
FROM memoryapp_chatuser, generate_series(%(first)s::bigint, %(last)s) k WHERE id = %(seed)s
"""


@dataclass(frozen=True, slots=True)
class Column:
    """``is_reference`` is a key of a row of the same memory, or the memory itself."""

    name: str
    is_uuid: bool
    is_reference: bool
    is_identity: bool

    def copied(self) -> Composable:
        moves = (self.is_reference or self.is_identity) and not self.is_uuid
        return SQL("{} + k * {}").format(Identifier(self.name), Literal(SPAN)) if moves else Identifier(self.name)


def multiply(dsn: str, seed: int, first: int, last: int) -> None:
    """Adds the copies ``first`` to ``last`` of the chat user ``seed``, whose rows have ids below ``SPAN``."""
    with psycopg.connect(dsn, autocommit=True, row_factory=namedtuple_row) as connection:
        # Keys and triggers are those of rows that are right already.
        connection.execute("SET session_replication_role = replica")
        tables: dict[str, list[Column]] = {}
        for table, *column in connection.execute(_COLUMNS):
            tables.setdefault(table, []).append(Column(*column))
        for begin in range(first, last + 1, AT_ONCE):
            end = min(begin + AT_ONCE - 1, last)
            connection.execute(_USER, {"span": SPAN, "first": begin, "last": end, "seed": seed})
            for table, columns in tables.items():
                if not any(column.is_uuid and column.name == "id" for column in columns):
                    connection.execute(_copies(table, columns), {"first": begin, "last": end, "seed": seed})
        for table in tables:
            connection.execute(
                SQL("ALTER TABLE {} ALTER COLUMN id RESTART WITH {}").format(
                    Identifier(table), Literal(10**12 + last * SPAN)
                )
            ) if any(column.is_identity for column in tables[table]) else None
        connection.execute("VACUUM ANALYZE")


def _copies(table: str, columns: list[Column]) -> Composed:
    return SQL(
        "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {copies} FROM {table},"
        " generate_series(%(first)s::bigint, %(last)s) k WHERE owner_id = %(seed)s"
    ).format(
        table=Identifier(table),
        names=SQL(", ").join(Identifier(column.name) for column in columns),
        copies=SQL(", ").join(column.copied() for column in columns),
    )
