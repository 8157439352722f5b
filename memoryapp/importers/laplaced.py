"""The SQLite database of laplaced, a chat bot with a memory: the messages of all of its users.

Messages that it had put into one topic are one session here, so that its topics are found again. The file comes from a
stranger: it is opened to be read alone, and nothing that its schema says is executed.
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.utils.translation import gettext as _

from memoryapp.importers.record import MOST_TEXT, BadRecord, Clock, MessageRecord, Rejected, UnreadableFile, message
from memoryapp.importers.source import SourceFile

MAGIC = b"SQLite format 3\x00"
MOST_USERS = 100_000

_NEEDED = {"id", "user_id", "role", "content"}
_ROLES = {"user": "user", "assistant": "assistant", "bot": "assistant", "model": "assistant", "system": "system"}
# "2025-07-25 14:30:00.123456789 +0300 MSK m=+0.02", as the program's language prints times.
_PRINTED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) ([+-]\d{4})\b.{0,40}")


def recognises(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def check(source: SourceFile) -> None:
    """Raises UnreadableFile where the database is not one of laplaced, or is broken."""
    with opened(source) as rows:
        _columns(source, rows)


def read(source: SourceFile, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """All messages in the order in which they were stored; each names its user."""
    with opened(source) as rows:
        columns = _columns(source, rows)
        called = names(rows)
        total = max(1, int(rows.execute("SELECT count(*) FROM history").fetchone()[0]))
        topic_at = _topic_at(rows) if "topic_id" not in columns else None
        chosen = ", ".join(name if name in columns else f"NULL AS {name}" for name in _READ)
        for number, found in enumerate(rows.execute(f"SELECT {chosen} FROM history ORDER BY id"), start=1):
            source.meter.read = source.meter.size * number // total
            row = dict(zip(_READ, found, strict=True))
            if topic_at:
                row["topic_id"] = topic_at(row["user_id"], row["id"])
            yield _message(row, called, clock)


_READ = ("id", "user_id", "role", "content", "topic_id", "created_at", "author", "conversation_id")


def _topic_at(rows: sqlite3.Connection) -> Callable[[Any, Any], int | None]:
    """Finds the topic of a user's message by the ranges that early databases had instead of a column."""
    ranges: dict[Any, list[tuple[int, int, int]]] = {}
    if columns_of(rows, "topics") >= {"id", "user_id", "start_msg_id", "end_msg_id"}:
        listed = "SELECT user_id, start_msg_id, end_msg_id, id FROM topics WHERE typeof(start_msg_id) = 'integer'"
        for user, first, last, number in rows.execute(f"{listed} AND typeof(end_msg_id) = 'integer' ORDER BY 2, 4"):
            ranges.setdefault(user, []).append((first, last, number))

    def found(user: Any, number: Any) -> int | None:
        place = bisect_right(ranges.get(user, ()), (number, inf, inf)) - 1
        first, last, topic = ranges[user][place] if place >= 0 else (0, -1, 0)
        return topic if first <= number <= last else None

    return found


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


def _columns(source: SourceFile, rows: sqlite3.Connection) -> set[str]:
    """The columns of the messages. Raises UnreadableFile."""
    columns = columns_of(rows, "history")
    if not columns >= _NEEDED:
        raise UnreadableFile(
            _("%(path)s is a database, but not one of laplaced: it has no table history with messages.")
            % {"path": source.name}
        )
    return columns


def columns_of(rows: sqlite3.Connection, name: str) -> set[str]:
    """The columns of a table; none where there is no such table, or something else has its name."""
    found = rows.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchall()
    if found != [("table",)]:
        return set()
    return {str(row[1]) for row in rows.execute(f"PRAGMA table_info({name})")}


def names(rows: sqlite3.Connection) -> dict[Any, str]:
    """What users are called, by id: their user name, or their own, or the id where another is called so."""
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
    """The external id of a message here."""
    return f"laplaced:{user}:{number}"


def _message(row: dict[str, Any], names: dict[Any, str], clock: Clock) -> MessageRecord | Rejected:
    place = f"history[{row['id']}]"
    user = names.get(row["user_id"], str(row["user_id"] or ""))
    try:
        sent_at = clock.read(time_of(row["created_at"]))
        role, topic = str(row["role"] or ""), row["topic_id"]
        where = row["conversation_id"] or ""
        return message(
            user=user,
            external_id=message_id(row["user_id"], row["id"]),
            role=_ROLES.get(role, role),
            author=row["author"] or ("" if role == "user" else "laplaced"),
            sent_at=sent_at,
            text=row["content"],
            session=f"laplaced:topic:{topic}" if topic is not None else f"laplaced:{where}".rstrip(":"),
            metadata={**({"topic": topic} if topic is not None else {}), **clock.mark()},
            line=place,
        )
    except BadRecord as error:
        return Rejected(place, str(error), user)


def time_of(value: Any) -> Any:
    found = _PRINTED.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1]}{found[2]}" if found else value
