"""What a connection finds: the tables of the cell at hand, and of their rows none that a limited actor may not see, in
whatever statement.

A cell is a schema (``engine.cells``), which a connection finds before the tables that all memories share. For each
table of memories there is a view of the same name in the schema ``memoryapp_seen``, made by the migrations, with the
rows that a limited actor sees; each cell has such views as well. While the sight is limited, a connection finds the
views before the tables: so no query of the ORM, no count, no statement in SQL, and none that is written one day, can
forget it. Without a limit and in cell 0 nothing is sent and nothing differs.

Where there are several cells, a statement about memories is refused before one is chosen: the rows of one must not pass
for those of all.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Model
from django.utils.translation import gettext as _
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.cells import cell
from memoryapp.engine.sight import looking, sight
from memoryapp.platform.statements import fetched

SCHEMA = "memoryapp_seen"
# Where a connection looks when nothing was set; the same for all of a process, and slow to ask for.
HOME = "SELECT reset_val FROM pg_settings WHERE name = 'search_path'"
# Without the first of the schemas the tables of another would be found.
LIMIT = """
SELECT set_config('search_path', concat_ws(',', VARIADIC %(schemas)s::text[] || %(home)s::text), false),
       set_config('memoryapp.projects', %(projects)s::text[]::text, false),
       %(is_limited)s AND EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
WHERE to_regclass((%(schemas)s::text[])[1] || '.memoryapp_message') IS NOT NULL
"""
UNLIMIT = "RESET search_path"
# What a connection shows, where that is known, and whether that was set in a transaction, which may be rolled back.
_SHOWN, _IN_TRANSACTION = "mnemoscope_sight", "mnemoscope_sight_in_transaction"
# The projects and the cell.
Shown = tuple[frozenset[str] | None, int]
_ALL: Shown = (None, 0)
_home: list[str] = []
_UNKNOWN: Shown = (None, -1)


class NotMade(RuntimeError):
    """The tables of a cell, or the views of limited actors, are missing, so nothing is shown."""


class NotByProject(Exception):
    """A limit to projects does not hold in a cell on another machine; the text is a sentence for people."""

    def __str__(self) -> str:
        return _("Memories lie on several machines here, and nothing there can be limited to projects.")


class NoCell(RuntimeError):
    """Rows of memories were asked for before it was said of which cell; a fault of the program."""


def schema(number: int) -> str:
    """The schema of a cell."""
    return f"memoryapp_cell_{number}" if number else "public"


def seen_schema(number: int) -> str:
    """The schema of the views that show a limited actor this cell."""
    return f"{schema(number)}_seen" if number else SCHEMA


@cache
def tables() -> tuple[str, ...]:
    """The tables of each cell."""
    return tuple(model._meta.db_table for model in apps.get_models() if getattr(model, "in_cell", False))


def _wanted() -> Shown:
    return sight().projects, cell() or 0


def _statement(wanted: Shown) -> tuple[str, dict[str, Any]]:
    projects, number = wanted
    if wanted == _ALL:
        return UNLIMIT, {}
    views = [] if projects is None else [seen_schema(number), *([SCHEMA] if number else ())]
    schemas, is_limited = [*views, *([schema(number)] if number else ())], bool(views and number)
    values = {"schemas": schemas, "home": _home[0], "projects": sorted(projects or ()), "is_limited": is_limited}
    return LIMIT, values


def check_limit(projects: Collection[str] | None) -> None:
    """Raises NotByProject where a limit to projects, which somebody gives, would not hold."""
    if projects is not None and settings.CELLS > 1 and fetched("SELECT FROM pg_extension WHERE extname = 'citus'"):
        raise NotByProject


def _check(found: tuple[Any, ...] | None) -> None:
    """Raises NotMade, or NotByProject: the views ask the connection for the projects, and Citus looks at them on
    another."""
    if found is None:
        raise NotMade
    if found[2]:
        raise NotByProject


def _show(holder: Any) -> None:
    """Has the connection show what the code at hand sees. A transaction may be rolled back, and the settings with it:
    what was set in one is unknown when it is over."""
    wanted = _wanted()
    is_open = holder.connection.info.transaction_status != TransactionStatus.IDLE
    if getattr(holder, _IN_TRANSACTION) and not is_open:
        _forget(holder)
    if getattr(holder, _SHOWN) == wanted:
        return
    with holder.wrap_database_errors, holder.connection.cursor() as cursor:
        if not _home:
            _home.append(cursor.execute(HOME).fetchone()[0])
        found = cursor.execute(*_statement(wanted))
        if wanted != _ALL:
            _forget(holder)
            _check(found.fetchone())
    setattr(holder, _SHOWN, wanted)
    setattr(holder, _IN_TRANSACTION, not holder.get_autocommit())


def _forget(holder: Any) -> None:
    setattr(holder, _SHOWN, _UNKNOWN)
    setattr(holder, _IN_TRANSACTION, False)


def _before(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    if sql.startswith("ROLLBACK"):
        _forget(context["connection"])
    # After an error a transaction takes nothing but its end, and how it is isolated is said first.
    elif not sql.startswith(("RELEASE", "SAVEPOINT", "SET TRANSACTION")):
        # One that names the schema means a cell by itself.
        is_of_any = settings.CELLS > 1 and cell() is None and '"."memoryapp_' not in sql
        if is_of_any and any(table in sql for table in tables()):
            raise NoCell(sql[:200])
        _show(context["connection"])
    return execute(sql, params, many, context)


def _is_grouped_by_key(model: type[Model]) -> bool:
    # Citus hands the rows of shared tables to a cell without their keys.
    is_whole = settings.CELLS == 1 or getattr(model, "in_cell", False)
    return model._meta.managed and sight().projects is None and is_whole


def _watch(connection: BaseDatabaseWrapper, **_signal: Any) -> None:
    setattr(connection, _SHOWN, _ALL)
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
        if settings.CELLS > 1 and cell() is None:
            await self.putconn(connection)
            raise NoCell
        wanted = _wanted()
        if getattr(connection, _SHOWN, _ALL) != wanted:
            try:
                if not _home:
                    _home.extend(await (await connection.execute(HOME)).fetchone() or ())
                found = await connection.execute(*_statement(wanted))
                if wanted != _ALL:
                    _check(await found.fetchone())
            except BaseException:
                await connection.close()
                await self.putconn(connection)
                raise
            setattr(connection, _SHOWN, wanted)
        return connection
