"""The SQLite database of laplaced, a chat bot with a memory: the messages of all of its users.

Messages of one of its topics form one session here, so that its topics can be restored. What it distilled from the
messages comes along: topics, facts, people and artifacts, if its database has them. A row that does not fit this
program is rejected with a reason. Who stores the rows compares them with known ones."""

import json
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote as parse_quote

from django.utils.translation import gettext as _

from memoryapp.importers.format import DatabaseLayout, Format, Hints, Reader
from memoryapp.importers.record import MOST_TEXT, Clock, Distilled, MessageRecord, Rejected, UnreadableFile, message
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, clean, quote

# Opens the SQLite database of laplaced, and reads what its messages and its other tables have in common.
#
# The file comes from a stranger: it is opened read-only, and nothing that its schema contains is executed. Its pages
# may point to each other, so that a table never ends: every statement takes at most the steps that a whole database
# of this size needs, and a table is counted before anything sorts or collects its rows.

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
    address = f"file:{parse_quote(str(source.path.absolute()))}?mode=ro&immutable=1"
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
    """Returns how many rows a table has. Raises UnreadableFile if these columns have more bytes than the file, as when
    rows share their pages."""
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
    return f"laplaced:{user}:{number}"


def time_of(value: Any) -> Any:
    """Returns a time that Go printed as ISO 8601; any other value unchanged."""
    found = _PRINTED.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1]}{found[2]}" if found else value


MOST_SUMMARY_CHARS = 2_000
MOST_ENTRIES = 200
CIRCLES = {"Family", "Friends", "Work_Inner", "Work_Outer", "Other"}
MAGIC = b"SQLite format 3\x00"

_NEEDED = {"id", "user_id", "role", "content"}
_ROLES = {"user": "user", "assistant": "assistant", "bot": "assistant", "model": "assistant", "system": "system"}
_SHA256 = re.compile(r"[0-9a-f]{64}")

Row = Mapping[str, Any]


def recognises(source: SourceFile) -> bool:
    """Whether the file is a database. Raises UnreadableFile when it is broken or not one of laplaced."""
    with source.path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return False
    with opened(source) as rows:
        _columns(source, rows)
    return True


def read(source: SourceFile, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields all messages in the order in which they were stored; each names its user."""
    with opened(source) as rows:
        columns = _columns(source, rows)
        called = names(source, rows)
        total = max(1, count(source, rows, "history", [name for name in _READ if name in columns]))
        topic_at = _topic_at(source, rows) if "topic_id" not in columns else None
        chosen = ", ".join(name if name in columns else f"NULL AS {name}" for name in _READ)
        for number, found in enumerate(rows.execute(f"SELECT {chosen} FROM history ORDER BY id"), start=1):
            source.meter.read = source.meter.size * number // total
            row = dict(zip(_READ, found, strict=True))
            if topic_at:
                row["topic_id"] = topic_at(row["user_id"], row["id"])
            yield _message(row, called, clock)


_READ = ("id", "user_id", "role", "content", "topic_id", "created_at", "author", "conversation_id")


def _topic_at(source: SourceFile, rows: sqlite3.Connection) -> Callable[[Any, Any], int | None]:
    """Returns a function that finds the topic of a user's message. It uses the ranges of messages that early databases
    have instead of a column."""
    ranges: dict[Any, list[tuple[int, int, int]]] = {}
    if columns_of(rows, "topics") >= {"id", "user_id", "start_msg_id", "end_msg_id"}:
        count(source, rows, "topics", ("user_id", "id"))
        listed = "SELECT user_id, start_msg_id, end_msg_id, id FROM topics WHERE typeof(start_msg_id) = 'integer'"
        for user, first, last, number in rows.execute(f"{listed} AND typeof(end_msg_id) = 'integer' ORDER BY 2, 4"):
            ranges.setdefault(user, []).append((first, last, number))

    def found(user: Any, number: Any) -> int | None:
        place = bisect_right(ranges.get(user, ()), (number, inf, inf)) - 1
        first, last, topic = ranges[user][place] if place >= 0 else (0, -1, 0)
        return topic if first <= number <= last else None

    return found


def _columns(source: SourceFile, rows: sqlite3.Connection) -> set[str]:
    """Returns the columns of the messages. Raises UnreadableFile when the database is not one of laplaced."""
    columns = columns_of(rows, "history")
    if not columns >= _NEEDED:
        raise UnreadableFile(
            _("%(path)s is a database, but not one of laplaced: it has no table history with messages.")
            % {"path": source.name}
        )
    return columns


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


def read_distilled(source: SourceFile, clock: Clock) -> Iterator[Distilled | Rejected]:
    """Yields what laplaced distilled from the messages, topics first, because facts refer to them."""
    with opened(source) as rows:
        called = names(source, rows)
        for table, (kind, columns, values) in _TABLES.items():
            for row in _rows(source, rows, table, columns):
                place, user = f"{table}[{row['id']}]", called.get(row["user_id"], str(row["user_id"] or ""))
                topic = row.get("topic_id")
                try:
                    made = clean(values(row, clock))
                    yield Distilled(kind, user, place, made, topic if isinstance(topic, int) else None)
                except BadRecord as error:
                    yield Rejected(place, str(error), user)


def users(source: SourceFile) -> set[str]:
    """Returns the names of all users who have any row in the database."""
    found: set[str] = set()
    with opened(source) as rows:
        called = names(source, rows)
        for table in ("history", *_TABLES):
            if columns_of(rows, table) >= {"id", "user_id"}:
                count(source, rows, table, ("user_id",))
                listed = rows.execute(f"SELECT DISTINCT user_id FROM {table}")
                found |= {clean(called.get(key, str(key or ""))) for (key,) in listed}
    return found


def _rows(source: SourceFile, rows: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> Iterator[Row]:
    there = columns_of(rows, table)
    if not there >= {"id", "user_id"}:
        return
    wanted = ("id", "user_id", *columns)
    chosen = ", ".join(name if name in there else f"NULL AS {name}" for name in wanted)
    count(source, rows, table, [name for name in wanted if name in there])
    for row in rows.execute(f"SELECT {chosen} FROM {table} ORDER BY user_id, id"):
        yield dict(zip(wanted, row, strict=True))


def _topic(row: Row, clock: Clock) -> dict[str, Any]:
    if not isinstance(row["id"], int):
        raise BadRecord(_("%(value)s is no number of a topic") % {"value": quote(row["id"])})
    summary = _text(row, "summary", MOST_SUMMARY_CHARS)
    if not summary:
        raise BadRecord(_("it has no summary; its messages become topics here"))
    return {"number": row["id"], "summary": summary, "facts_extracted": bool(row["facts_extracted"])}


def _fact(row: Row, clock: Clock) -> dict[str, Any]:
    importance = row["importance"] if isinstance(row["importance"], int) else 0
    return {
        "relation": _text(row, "relation", 100),
        "category": _text(row, "category", 100),
        "content": _text(row, "content", 10_000),
        "type": _text(row, "type", 16),
        "importance": importance,
        "created_at": clock.read(time_of(row["created_at"])),
    }


def _person(row: Row, clock: Clock) -> dict[str, Any]:
    circle = _text(row, "circle", 20)
    count = row["mention_count"] if isinstance(row["mention_count"], int) else 0
    return {
        "display_name": _text(row, "display_name", 200),
        "aliases": _list(row, "aliases"),
        "username": _text(row, "username", 100),
        # laplaced replaces an unknown circle in the same way.
        "circle": circle if circle in CIRCLES else "Other",
        "bio": _text(row, "bio", 10_000),
        "mention_count": max(0, count),
        "first_seen": _moment(row["first_seen"], clock),
        "last_seen": _moment(row["last_seen"], clock),
    }


def _artifact(row: Row, clock: Clock) -> dict[str, Any]:
    sha256 = _text(row, "content_hash", 64).lower()
    if not _SHA256.fullmatch(sha256):
        raise BadRecord(_("%(value)s is not the SHA-256 of a file") % {"value": quote(row["content_hash"])})
    if row["state"] != "ready":
        raise BadRecord(_("its file was never read, and is not in the database"))
    size = row["file_size"] if isinstance(row["file_size"], int) else 0
    return {
        "sha256": sha256,
        "name": _text(row, "original_name", 300) or sha256[:12],
        "file_type": _text(row, "file_type", 40) or "document",
        "mime_type": _text(row, "mime_type", 100),
        "size_bytes": max(0, size),
        "summary": _text(row, "summary", 10_000),
        "keywords": _list(row, "keywords"),
        "entities": _list(row, "entities"),
        "rag_hints": _list(row, "rag_hints"),
        "created_at": clock.read(time_of(row["created_at"])),
        "message": message_id(row["user_id"], row["message_id"]),
    }


_TABLES: Mapping[str, tuple[str, tuple[str, ...], Callable[[Row, Clock], dict[str, Any]]]] = {
    "topics": ("topic", ("summary", "facts_extracted"), _topic),
    "structured_facts": (
        "fact",
        ("relation", "category", "content", "type", "importance", "topic_id", "created_at"),
        _fact,
    ),
    "people": (
        "person",
        ("display_name", "aliases", "username", "circle", "bio", "mention_count", "first_seen", "last_seen"),
        _person,
    ),
    "artifacts": (
        "artifact",
        (
            *("content_hash", "original_name", "file_type", "mime_type", "file_size", "state", "summary"),
            *("keywords", "entities", "rag_hints", "created_at", "message_id"),
        ),
        _artifact,
    ),
}


def _text(row: Row, name: str, most: int) -> str:
    """Returns the text without blanks around it; empty for null. Raises BadRecord."""
    value = row[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRecord(_("%(name)s must be text, not %(value)s") % {"name": name, "value": quote(value)})
    if len(value.strip()) > most:
        raise BadRecord(_("%(name)s is longer than %(most)s characters") % {"name": name, "most": f"{most:,}"})
    return value.strip()


def _list(row: Row, name: str) -> list[str]:
    """Returns the texts of a list that is stored as JSON; empty for null. Raises BadRecord."""
    try:
        found = json.loads(row[name]) if row[name] else []
    except (ValueError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise BadRecord(_("%(name)s must be a list, not %(value)s") % {"name": name, "value": quote(row[name])})
    return [item for item in found if isinstance(item, str)][:MOST_ENTRIES]


def _moment(value: Any, clock: Clock) -> Any:
    return clock.read(time_of(value)) if value else None


def open_database(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read, source), users=lambda _clock: users(source), distilled=partial(read_distilled, source))


FORMAT = Format("laplaced", "laplaced", (DatabaseLayout(recognises, open_database),))
