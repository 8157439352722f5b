"""Shows a limited actor no row beyond its sight, in whatever statement.

For each table of memories there is a view of the same name in the schema ``memoryapp_seen``, made by the migrations,
with the rows that a limited actor sees. While the sight is limited, a connection finds the views before the tables: so
no query of the ORM, no count, no statement in SQL, and none that is written one day, can forget it. Without a limit
nothing is sent and nothing differs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Model
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.sight import EVERYTHING, Sight, looking, sight

SCHEMA = "memoryapp_seen"
# Without the views the tables themselves would be found.
LIMIT = f"""
SELECT set_config('search_path', '{SCHEMA},' || reset_val, false),
       set_config('memoryapp.projects', %s::text[]::text, false)
FROM pg_settings WHERE name = 'search_path' AND EXISTS (
    SELECT FROM pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}') AND relname = 'memoryapp_message'
)
"""
UNLIMIT = "RESET search_path"
# What a connection shows, where that is known, and whether that was set in a transaction, which may be rolled back.
_SHOWN, _IN_TRANSACTION = "mnemoscope_sight", "mnemoscope_sight_in_transaction"
_UNKNOWN = Sight(frozenset())


class NoViews(RuntimeError):
    """The views of limited actors are missing, so nothing is shown to them."""


def _statement(seen: Sight) -> tuple[str, list[list[str]]]:
    return (UNLIMIT, []) if seen.projects is None else (LIMIT, [sorted(seen.projects)])


def _is_shown(holder: Any, seen: Sight) -> bool:
    shown: Sight = getattr(holder, _SHOWN, EVERYTHING)
    return shown is not _UNKNOWN and shown.projects == seen.projects


def _show(holder: Any) -> None:
    """Has the connection show what the code at hand sees. A transaction may be rolled back, and the settings with it:
    what was set in one is unknown when it is over."""
    seen = sight()
    is_open = holder.connection.info.transaction_status != TransactionStatus.IDLE
    if getattr(holder, _IN_TRANSACTION) and not is_open:
        _forget(holder)
    if _is_shown(holder, seen):
        return
    with holder.wrap_database_errors, holder.connection.cursor() as cursor:
        found = cursor.execute(*_statement(seen))
        if seen.projects is not None and found.fetchone() is None:
            raise NoViews
    setattr(holder, _SHOWN, seen)
    setattr(holder, _IN_TRANSACTION, not holder.get_autocommit())


def _forget(holder: Any) -> None:
    setattr(holder, _SHOWN, _UNKNOWN)
    setattr(holder, _IN_TRANSACTION, False)


def _before(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    if sql.startswith("ROLLBACK"):
        _forget(context["connection"])
    # After an error a transaction takes nothing but its end.
    elif not sql.startswith(("RELEASE", "SAVEPOINT")):
        _show(context["connection"])
    return execute(sql, params, many, context)


def _is_grouped_by_key(model: type[Model]) -> bool:
    return model._meta.managed and sight().projects is None


def _watch(connection: BaseDatabaseWrapper, **_signal: Any) -> None:
    setattr(connection, _SHOWN, EVERYTHING)
    setattr(connection, _IN_TRANSACTION, False)
    if _before not in connection.execute_wrappers:
        connection.execute_wrappers.append(_before)
        # Of a view PostgreSQL does not know that its key decides about the other columns.
        vars(connection.features).update(allows_group_by_selected_pks_on_model=_is_grouped_by_key)


connection_created.connect(_watch)


@contextmanager
def copying() -> Iterator[Any]:
    """A cursor for a COPY, which goes into tables and not into views; nothing may be read with it."""
    with looking(), connection.cursor() as cursor, connection.wrap_database_errors:
        _show(connection)
        yield cursor


class SeeingPool(AsyncConnectionPool):
    """A pool whose connections show what the task that takes one sees."""

    async def getconn(self, timeout: float | None = None) -> psycopg.AsyncConnection[Any]:  # noqa: ASYNC109 its base's
        connection: psycopg.AsyncConnection[Any] = await super().getconn(timeout)
        seen = sight()
        if not _is_shown(connection, seen):
            try:
                found = await connection.execute(*_statement(seen))
                if seen.projects is not None and await found.fetchone() is None:
                    raise NoViews
            except BaseException:
                await connection.close()
                await self.putconn(connection)
                raise
            setattr(connection, _SHOWN, seen)
        return connection
