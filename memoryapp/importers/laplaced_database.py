"""Opens the SQLite database of laplaced, and reads what its messages and its other tables have in common.

The file comes from a stranger: it is opened read-only, and nothing that its schema contains is executed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

from django.utils.translation import gettext as _

from memoryapp.importers.record import MOST_TEXT, UnreadableFile
from memoryapp.importers.source import SourceFile

MOST_USERS = 100_000

# "2025-07-25 14:30:00.123456789 +0300 MSK m=+0.02", as the Go program prints times.
_PRINTED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) ([+-]\d{4})\b.{0,40}")


@contextmanager
def opened(source: SourceFile) -> Iterator[sqlite3.Connection]:
    address = f"file:{quote(str(source.path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as rows:
            rows.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 20 * MOST_TEXT)
            rows.execute("PRAGMA trusted_schema = OFF")
            yield rows
    except sqlite3.Error as error:
        raise UnreadableFile(
            _("%(path)s is a database that cannot be read: %(error)s.") % {"path": source.name, "error": error}
        ) from None


def columns_of(rows: sqlite3.Connection, name: str) -> set[str]:
    """Returns the columns of a table; empty if there is no such table, or the name belongs to something else."""
    found = rows.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchall()
    if found != [("table",)]:
        return set()
    return {str(row[1]) for row in rows.execute(f"PRAGMA table_info({name})")}


def names(rows: sqlite3.Connection) -> dict[Any, str]:
    """Returns the names of users by id: the user name, else the own name; with the id if it is empty or taken."""
    columns = columns_of(rows, "users")
    if not columns >= {"id"}:
        return {}
    parts = [name if name in columns else "NULL" for name in ("username", "first_name", "last_name")]
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
