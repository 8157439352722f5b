"""Reads the running conversation that comes with a query: this project's messages, or OpenAI's with ``content``.

Unlike a stored message, such a message needs neither id nor time. A message that cannot be understood is refused with
its place in the list: if it were dropped silently, the models would not read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.importers.record import BadRecord, message, moment, quote

_KEPT = ("role", "author", "text", "session", "forwarded_from")


def conversation(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the messages as they are stored with a run, oldest first. Raises RequestRefused."""
    return [_read(f"messages.{index}", item) for index, item in enumerate(messages)]


def _read(place: str, item: Mapping[str, Any]) -> dict[str, Any]:
    text = _text(place, item)
    sent_at = datetime.now(UTC)
    try:
        if item.get("ts") is not None:
            sent_at = moment(item["ts"])
        named = item.get("id")
        read = message(
            role=item.get("role", "user"),
            text=text,
            external_id="-" if named is None else named,
            sent_at=sent_at,
            author=item.get("author"),
            session=item.get("session"),
            forwarded_from=item.get("forwarded_from"),
        )
    except BadRecord as error:
        raise RequestRefused(422, f"{place}: {error}") from None
    kept = {name: getattr(read, name) for name in _KEPT}
    external = "" if named is None else read.external_id
    return {"id": external, "ts": sent_at.isoformat(), **{name: value for name, value in kept.items() if value}}


def _text(place: str, item: Mapping[str, Any]) -> str:
    given = [name for name in ("text", "content") if item.get(name) is not None]
    if len(given) != 1:
        found = "both" if given else "neither"
        raise RequestRefused(422, f"{place}: a message has text, or content as OpenAI has it; this one has {found}.")
    if given == ["content"]:
        return _content(f"{place}.content", item["content"])
    if not isinstance(item["text"], str):
        raise RequestRefused(422, f"{place}.text must be text, not {quote(item['text'])}.")
    return item["text"]


def _content(place: str, content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise RequestRefused(422, f"{place} must be text or a list of content parts, not {quote(content)}.")
    return "\n".join(_part(f"{place}.{index}", part) for index, part in enumerate(content))


def _part(place: str, part: object) -> str:
    if not isinstance(part, Mapping):
        raise RequestRefused(422, f"{place} must be a content part, not {quote(part)}.")
    if part.get("type") != "text":
        kind = quote(part.get("type"))
        raise RequestRefused(
            422, f"{place}: its type is {kind}; only text is taken here, and what comes with the query in media."
        )
    if not isinstance(part.get("text"), str):
        raise RequestRefused(422, f"{place}.text must be text, not {quote(part.get('text'))}.")
    return str(part["text"])
