"""JSON Lines: one conversation a line.

``{"user": "anna", "messages": [{"id", "session"?, "role", "author", "ts", "text", "reply_to"?,
"forwarded_from"?, "attachments"?}]}``; a line may also be a single message with its ``user``. Fields
that are not known are kept: a message's in its metadata, a conversation's with its first message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import document
from memoryapp.importers.record import BadRecord, MessageRecord, Rejected, message, moment, shown, words

_FIELDS = {"id", "session", "role", "author", "ts", "text", "reply_to", "forwarded_from"}
_UNDECODED = re.compile("[\udc80-\udcff]")


def recognises(value: object) -> bool:
    """Whether a parsed line is a conversation or a message of this format."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("messages"), list) or ("id" in value and "role" in value)
    )


def read(path: Path) -> Iterator[MessageRecord | Rejected]:
    """The messages of a file, one line in memory at a time."""
    encoding = document.encoding(path)
    # Only UTF-8 can carry bad bytes through as surrogates, to be told of with their line.
    with path.open(encoding=encoding, errors="replace" if encoding == "utf-16" else "surrogateescape") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield from _line(number, line)


def read_document(conversations: list[Any]) -> Iterator[MessageRecord | Rejected]:
    """The same conversations as the items of one JSON list."""
    for index, value in enumerate(conversations):
        yield from conversation(value, f"[{index}]")


def _line(number: int, line: str) -> Iterator[MessageRecord | Rejected]:
    if _UNDECODED.search(line):
        yield Rejected(number, _("not UTF-8 text"))
        return
    try:
        value = document.parse(line)
    except ValueError as error:
        yield Rejected(number, _("not valid JSON: %(error)s") % {"error": error})
        return
    yield from conversation(value, number)


def conversation(value: object, place: int | str) -> Iterator[MessageRecord | Rejected]:
    """The messages of one conversation; ``place`` is its line number, or its path in a document."""
    try:
        user, messages, rest = _opened(value)
    except BadRecord as error:
        yield Rejected(place, str(error))
        return
    if messages is None:
        yield _message(rest, user, place, {})
        return
    where = f"line {place}" if isinstance(place, int) else place
    for number, item in enumerate(messages, start=1):
        extra = {"conversation": rest} if rest and number == 1 else {}
        yield _message(item, user, f"{where}, message {number}", extra)


def _opened(value: object) -> tuple[str, list[Any] | None, dict[str, Any]]:
    """The user, the messages (None when the line is a message itself) and all else of a line."""
    if not isinstance(value, Mapping):
        raise BadRecord(_("a conversation must be a JSON object, not %(value)s") % {"value": shown(value)})
    rest = dict(value)
    user = words(rest.pop("user", ""), "user").strip()
    if "messages" not in rest and recognises(value):
        return user, None, rest
    messages = rest.pop("messages", None)
    if not isinstance(messages, list):
        raise BadRecord(_("it has no list of messages"))
    return user, messages, rest


def _message(item: object, user: str, line: int | str, extra: dict[str, Any]) -> MessageRecord | Rejected:
    try:
        return _checked(item, user, line, extra)
    except BadRecord as error:
        return Rejected(line, str(error), user)


def _checked(item: object, user: str, line: int | str, extra: dict[str, Any]) -> MessageRecord:
    if not isinstance(item, Mapping):
        raise BadRecord(_("a message must be a JSON object, not %(value)s") % {"value": shown(item)})
    if item.get("text") is None and not item.get("attachments"):
        raise BadRecord(_("it has no text"))
    return message(
        user=user,
        external_id=item.get("id"),
        role=item.get("role"),
        author=item.get("author"),
        sent_at=moment(item.get("ts")),
        text=item.get("text"),
        session=item.get("session"),
        reply_to=item.get("reply_to"),
        forwarded_from=item.get("forwarded_from"),
        metadata={**{key: value for key, value in item.items() if key not in _FIELDS}, **extra},
        line=line,
    )
