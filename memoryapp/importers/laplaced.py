"""The SQLite database of laplaced, a chat bot with a memory: the messages of all of its users.

Messages of one of its topics form one session here, so that its topics can be restored.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import laplaced_memory
from memoryapp.importers.format import DatabaseLayout, Format, Hints, Reader
from memoryapp.importers.laplaced_database import columns_of, message_id, names, opened, time_of
from memoryapp.importers.record import BadRecord, Clock, MessageRecord, Rejected, UnreadableFile, message
from memoryapp.importers.source import SourceFile

MAGIC = b"SQLite format 3\x00"

_NEEDED = {"id", "user_id", "role", "content"}
_ROLES = {"user": "user", "assistant": "assistant", "bot": "assistant", "model": "assistant", "system": "system"}


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
    """Returns a function that finds the topic of a user's message.

    It uses the ranges of messages that early databases have instead of a column.
    """
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


def open_database(source: SourceFile, hints: Hints) -> Reader:
    return Reader(
        partial(read, source),
        users=lambda _clock: laplaced_memory.users(source),
        distilled=partial(laplaced_memory.read, source),
    )


FORMAT = Format("laplaced", "laplaced", (DatabaseLayout(recognises, open_database),))
