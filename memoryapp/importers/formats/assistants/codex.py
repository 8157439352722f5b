"""The session logs of Codex: JSON Lines with one event each, and, of its first versions, one document with all items.

The person's words and the assistant's answers are imported. Every other line is left out with its reason: reasoning,
tool calls and their results, and text that the program inserts. A log only grows, so a later import of the same log
adds its end; turns that were rolled back stay in it, and are left out here."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import record
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import DocumentLayout, Format, Hints, LinesLayout, Reader
from memoryapp.importers.formats.assistants.agent_logs import Values, kind_of, message_of, values_of, words_of
from memoryapp.importers.record import Clock, LeftOut, MessageRecord, Rejected
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, Fields, fields

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")


def is_codex(value: object) -> bool:
    """Whether a parsed line belongs to a log of Codex; old logs begin with a line without a type."""
    if not isinstance(value, Mapping):
        return False
    if kind_of(value) in _TYPES and isinstance(value.get("payload"), Mapping):
        return True
    return "record_type" in value or ("instructions" in value and "timestamp" in value and "id" in value)


def is_old_document(value: object) -> bool:
    """Whether a document is a session as the first versions of Codex wrote it."""
    return isinstance(value, Mapping) and "id" in fields(value.get("session")) and isinstance(value.get("items"), list)


def read(values: Callable[[], Values], clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of a log of Codex, and for each other line why it is left out."""
    session, place, count, events = "", "", 0, 0
    spoken, abandoned = _survey(values)
    for number, value in values():
        if isinstance(value, Rejected):
            yield value
            continue
        payload = _payload(value)
        if not session and (value.get("type") == "session_meta" or "instructions" in value):
            session, place = str(payload.get("id") or ""), str(payload.get("cwd") or "")
            clock.begin([payload.get("timestamp") or value.get("timestamp")])
        event = _event(value)
        if event and event not in spoken:
            events += 1
            payload, name = {"role": event[0], "content": event[1]}, f"event:{events}"
        elif payload.get("type") == "message" and payload.get("role") in ("user", "assistant"):
            count += 1
            name = str(count)
        else:
            yield LeftOut(number, str(record.TWICE if event else record.EVENT))
            continue
        if number in abandoned:
            yield LeftOut(number, str(record.REWOUND))
        elif not _said(payload):
            yield LeftOut(number, str(record.PROGRAM))
        else:
            yield message_of(number, clock, value.get("timestamp"), partial(_fields, payload, session, place, name))


Words = tuple[str, str]


def _survey(values: Callable[[], Values]) -> tuple[set[Words], set[int | str]]:
    """Returns the role and words of all items, and the numbers of the lines with messages that were rolled back. Most
    words stand twice in a log, as an item and as an event of the interface; some stand only in the event."""
    spoken: set[Words] = set()
    for _number, value in values():
        if not isinstance(value, Rejected) and (words := _item(value)):
            spoken.add(words)
    turns: list[tuple[int | str, str]] = []
    abandoned: set[int | str] = set()
    for number, value in values():
        if isinstance(value, Rejected):
            continue
        inner = value.get("payload")
        if isinstance(inner, Mapping) and kind_of(value) == "event_msg" and kind_of(inner) == "thread_rolled_back":
            left = inner.get("num_turns")
            abandoned |= _rolled_back(turns, left if isinstance(left, int) else 0)
            continue
        event = _event(value)
        words = _item(value) or (event if event not in spoken else None)
        if words:
            turns.append((number, words[0]))
    return spoken, abandoned


def _rolled_back(turns: list[tuple[int | str, str]], count: int) -> set[int | str]:
    """Takes the last ``count`` turns, which begin with the person's words, off the list; returns their line numbers."""
    taken: set[int | str] = set()
    while turns and count > 0:
        number, role = turns.pop()
        taken.add(number)
        count -= role == "user"
    return taken


def _item(value: Fields) -> Words | None:
    payload = _payload(value)
    if payload.get("type") != "message" or payload.get("role") not in ("user", "assistant"):
        return None
    words = _said(payload)
    return (str(payload["role"]), words) if words else None


def _said(value: Fields) -> str:
    """Returns the words of an item or an event, which its versions keep under other names."""
    found = (words_of([inner] if isinstance(inner, Mapping) else inner) for inner in map(value.get, _WORDS))
    return next(filter(None, found), "")


# Events in which somebody speaks, without signs and in small letters; newer versions of Codex have items in them.
_SPEAKING = {"usermessage": "user", "agentmessage": "assistant", "assistantmessage": "assistant"}
_WORDS = ("message", "content", "text", "value", "words")


def _event(value: Fields) -> Words | None:
    """Returns the role and words of an event in which somebody speaks."""
    inner = value.get("payload")
    if kind_of(value) != "event_msg" or not isinstance(inner, Mapping):
        return None
    item = inner.get("item")
    if kind_of(inner) == "item_completed" and isinstance(item, Mapping):
        inner = item
    role = _SPEAKING.get(kind_of(inner).replace("_", "").lower(), "")
    words = _said(inner)
    return (role, words) if role and words else None


def _payload(value: Fields) -> Fields:
    """Returns the payload of a line; in old logs, the line itself."""
    inner = value.get("payload")
    if value.get("type") in ("session_meta", "response_item") and isinstance(inner, Mapping):
        return inner
    return {} if kind_of(value) in _TYPES else value


def _fields(payload: Fields, session: str, place: str, name: str) -> dict[str, Any]:
    role = str(payload["role"])
    if not session:
        raise BadRecord(_("the log does not begin with its session"))
    return {
        "external_id": f"codex:{session}:{name}",
        "role": role,
        "author": "Codex" if role == "assistant" else "",
        "text": _said(payload),
        "session": f"codex:{session}",
        "metadata": {"cwd": place} if place else {},
    }


def _in_document(document: JsonDocument, session: Fields) -> Values:
    """Yields the lines that a later version would have written for a document."""
    yield "session", {"instructions": "", **session}
    for index, item in enumerate(document.items("items.item")):
        place = f"items[{index}]"
        yield place, item if isinstance(item, Mapping) else Rejected(place, _("it is no JSON object"))


def open_lines(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read, partial(values_of, source)))


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    session = fields(fields(outline).get("session"))
    return Reader(partial(read, partial(_in_document, document, session)))


FORMAT = Format(
    "codex",
    "Codex",
    (LinesLayout(is_codex, open_lines), DocumentLayout(is_old_document, open_document, ("rollout-*.json",))),
)
