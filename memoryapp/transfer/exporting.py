"""Writes an export: a header, the messages as ordinary JSON Lines, all other rows, and the number of lines.

Other importers read only the messages. A message's place (its topic, its import, whether it is withdrawn) is written in
a separate line, so its own line contains only what the message says.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from django.db import connection, models, transaction

from memoryapp.models import ChatUser, Message
from memoryapp.transfer.rows import FORMAT, MARK, as_exported, columns, exported, label, plain

_AT_ONCE = 1_000
_MESSAGE = {"id", "role", "author", "ts", "text", "session", "reply_to", "forwarded_from"}
_RESERVED = _MESSAGE | {"user", "messages", "metadata", MARK}


def lines(owner: ChatUser) -> Iterator[str]:
    """Yields the lines of the owner's memory at one moment, each with its newline; reads the rows in batches."""
    with _one_moment():
        count = 0
        for value in _values(owner):
            count += 1
            yield _line(value)
        yield _line({MARK: "end", "lines": count})


def file_of(owner: ChatUser) -> IO[bytes]:
    """Returns the same lines as an open temporary file at position 0, which is deleted when it is closed."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever sends it closes it
    try:
        for line in lines(owner):
            file.write(line.encode())
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def _one_moment() -> Iterator[None]:
    """All reads in the body see the memory at one moment, without later changes."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _values(owner: ChatUser) -> Iterator[dict[str, Any]]:
    yield {MARK: FORMAT, "user": owner.name}
    settings = {column.attname: plain(getattr(owner, column.attname)) for column in columns(ChatUser)}
    yield {MARK: label(ChatUser), **settings}
    for message in _rows(Message, owner):
        yield _message(owner.name, message)
    for message in _rows(Message, owner):
        yield _place(message)
    for model in exported():
        for row in _rows(model, owner):
            yield _row(model, row)


def _rows(model: type[models.Model], owner: ChatUser) -> Iterator[Any]:
    rows = model._base_manager.filter(owner=owner).order_by("pk")
    return rows.iterator(_AT_ONCE)


def _message(user: str, row: Message) -> dict[str, Any]:
    fields = {
        "user": user,
        "id": row.external_id,
        "role": row.role,
        "author": row.author,
        "ts": row.sent_at.isoformat(),
        "text": row.text,
        "session": row.session,
        "reply_to": row.reply_to,
        "forwarded_from": row.forwarded_from,
    }
    fields = {name: value for name, value in fields.items() if value or name in ("id", "role", "ts", "text")}
    # Metadata with the name of a field of the line is written separately.
    beside = {name: value for name, value in row.metadata.items() if name in _RESERVED}
    rest = {name: value for name, value in row.metadata.items() if name not in _RESERVED}
    return {**rest, **({"metadata": beside} if beside else {}), **fields}


def _row(model: type[models.Model], row: models.Model) -> dict[str, Any]:
    values = {column.attname: as_exported(column, getattr(row, column.attname)) for column in columns(model)}
    return {MARK: label(model), "n": row.pk, **values}


def _place(row: Message) -> dict[str, Any]:
    """Returns the line with the number by which other lines refer to the message, and its place."""
    place = {"topic": row.topic_id, "batch": row.batch_id, "is_withdrawn": row.is_withdrawn}
    return {MARK: "place", "n": row.pk, "message": row.external_id, **{name: at for name, at in place.items() if at}}


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
