"""SQL statements that are more than the ORM can say, sent on the connection of Django's default database."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

Values = Sequence[Any] | Mapping[str, Any]


def execute(statement: str, values: Values | None = None) -> None:
    """Sends a statement whose answer nobody needs."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def fetched(statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
    """The rows that the statement answers with."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
