"""Opens the SQLite database of laplaced, and reads what its messages and its other tables have in common.

The file comes from a stranger: it is opened read-only, and nothing that its schema contains is executed. Its pages may
point to each other, so that a table never ends: every statement takes at most the steps that a whole database of this
size needs, and a table is counted before anything sorts or collects its rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.utils.translation import gettext as _

from memoryapp.importers.record import MOST_TEXT, UnreadableFile
from memoryapp.importers.source import SourceFile

MOST_USERS = 100_000
# Steps of SQLite's machine. A row needs about 40 of them in all statements together, and at least 9 bytes of the file.
FIRST_STEPS = 1_000_000
STEPS_A_BYTE = 20
# How many steps are done between two looks at the clock.
STEPS_AT_ONCE = 250

# "2025-07-25 14:30:00.123456789 +0300 MSK m=+0.02", as the Go program prints times.
_PRINTED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) ([+-]\d{4})\b.{0,40}")


@dataclass(slots=True)
class _Guard:
    """Ends a connection's statements when they took too many steps, or the file's patience is at an end."""

    source: SourceFile
    steps: int
    ended: Exception | None = None

    def __call__(self) -> bool:
        """Called by SQLite after each few steps, ends the statement by True: SQLite lets no exception through."""
        self.steps -= STEPS_AT_ONCE
        try:
            self.source.meter.patience.check()
            if self.steps < 0:
                raise _has_no_room(self.source)
        except Exception as error:  # noqa: BLE001 it is raised where the statement ends
            self.ended = error
        return self.ended is not None


@contextmanager
def opened(source: SourceFile) -> Iterator[sqlite3.Connection]:
    """Yields a connection to the database. Reading it may raise UnreadableFile, and what the file's patience raises."""
    address = f"file:{quote(str(source.path.absolute()))}?mode=ro&immutable=1"
    guard = _Guard(source, FIRST_STEPS + STEPS_A_BYTE * source.path.stat().st_size)
    try:
        with closing(sqlite3.connect(address, uri=True)) as rows:
            rows.set_progress_handler(guard, STEPS_AT_ONCE)
            rows.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 20 * MOST_TEXT)
            rows.execute("PRAGMA trusted_schema = OFF")
            rows.execute("PRAGMA cell_size_check = ON")
            yield rows
    except sqlite3.Error as error:
        raise guard.ended or UnreadableFile(
            _("%(path)s is a database that cannot be read: %(error)s.") % {"path": source.name, "error": error}
        ) from None


def count(source: SourceFile, rows: sqlite3.Connection, table: str, columns: Iterable[str]) -> int:
    """Returns how many rows a table has.

    Raises UnreadableFile if these columns have more bytes than the file, as when rows share their pages.
    """
    # A plain count(*) is one step, which nothing can end.
    size = " + ".join(f"ifnull(length(CAST({name} AS BLOB)), 0)" for name in columns)
    found, total = rows.execute(f"SELECT ifnull(sum(1), 0), total({size}) FROM {table}").fetchone()
    # A number may be longer as a text than it is in the file.
    if total > 4 * source.path.stat().st_size:
        raise _has_no_room(source)
    return int(found)


def _has_no_room(source: SourceFile) -> UnreadableFile:
    return UnreadableFile(
        _("%(path)s is a damaged database: its tables hold more rows than the file has room for; copy it again.")
        % {"path": source.name}
    )


def columns_of(rows: sqlite3.Connection, name: str) -> set[str]:
    """Returns the columns of a table; empty if there is no such table, or the name belongs to something else."""
    found = rows.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchall()
    if found != [("table",)]:
        return set()
    return {str(row[1]) for row in rows.execute(f"PRAGMA table_info({name})")}


def names(source: SourceFile, rows: sqlite3.Connection) -> dict[Any, str]:
    """Returns the names of users by id: the user name, else the own name; with the id if it is empty or taken."""
    columns = columns_of(rows, "users")
    if not columns >= {"id"}:
        return {}
    parts = [name if name in columns else "NULL" for name in ("username", "first_name", "last_name")]
    count(source, rows, "users", [name for name in ("id", *parts) if name != "NULL"])
    found: dict[Any, str] = {}
    taken: set[str] = set()
    for key, user, first, last in rows.execute(f"SELECT id, {', '.join(parts)} FROM users LIMIT {MOST_USERS}"):
        own = str(user or "").strip() or " ".join(str(part) for part in (first, last) if part).strip()
        name = own if own and own not in taken else f"{own} {key}".strip()
        taken.add(name)
        found[key] = name[:200]
    return found


def message_id(user: Any, number: Any) -> str:
    """Returns the external id of a message."""
    return f"laplaced:{user}:{number}"


def time_of(value: Any) -> Any:
    """Returns a time that Go printed as ISO 8601; any other value unchanged."""
    found = _PRINTED.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1]}{found[2]}" if found else value
