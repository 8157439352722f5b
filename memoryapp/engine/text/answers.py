"""Reads leniently what a model selected.

Models answer with objects, bare numbers, fences, prose around the JSON, or JSON that was cut off. All of these are read
as the same picks, element by element: a bad element does not affect its neighbours. An unreadable answer is None, and
never looks like an empty selection.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import json_repair

from memoryapp.engine.memory import item_id, parse_item_id, parse_topic_id
from memoryapp.engine.text.json_answers import OPENING, embedded

# A longer answer is noise; the bound also limits the work on hostile input.
_MAX_CHARS = 200_000
_MAX_ID_CHARS = 80
_MAX_REASON_CHARS = 600

_KINDS = {
    "topics": "Topic",
    "topic_ids": "Topic",
    "ids": "Topic",
    "people": "Person",
    "people_ids": "Person",
    "person_ids": "Person",
    "artifacts": "Artifact",
    "artifact_ids": "Artifact",
    "files": "Artifact",
}
_ID_KEYS = ("id", "topic_id", "person_id", "artifact_id")
_KIND_PREFIX = re.compile(r"^\s*+\[?\s*+(topic|session|person|artifact)\s*+:", re.IGNORECASE)
# A file of the running conversation, which models name by its position: Artifact:session:2.
_SESSION_FILE = re.compile(
    r"^\[?\s*+(?P<kind>artifact\s*+:)?\s*+session\s*+(?::\s*+(?P<number>\d{1,3}))?\s*+\]?$", re.IGNORECASE
)
_LANGUAGE_WORD = re.compile(r"^[a-zA-Z]+")
# A string that ends inside an id ("Topic:1) might have become "Topic:18".
_CUT_ID = re.compile(r"""(?<=[\[,:{\s])["']\[?[a-z]*:?\d*$""", re.IGNORECASE)

_KEY = re.compile(rf"[\"'](?:{'|'.join(_KINDS)})[\"']\s*+:")
_LAST_WORD_EMPTY = re.compile(r"\[\s*\][\s.`]*\Z")

ExcerptPart = str | int


@dataclass(frozen=True, slots=True)
class Pick:
    """One selected item: ``Topic:42``, or the text found in place of an id.

    ``excerpt`` holds texts and message ids, as the model gave them.
    """

    id: str
    reason: str = ""
    excerpt: tuple[ExcerptPart, ...] = ()


def parse_answer(text: str) -> tuple[Pick, ...] | None:
    """The model's picks in its order, without repeats. An empty result means "nothing relevant", None means
    unreadable."""
    for value in _values(text[:_MAX_CHARS].strip()):
        picks = _picks(value)
        if picks is not None:
            return tuple({pick.id: pick for pick in reversed(picks)}[id] for id in dict.fromkeys(p.id for p in picks))
    return None


def parse_ids(arguments: str) -> tuple[str, ...] | None:
    """The ids in the JSON text of a tool call's arguments, without repeats; None when none can be read."""
    try:
        value = _unwrapped(_repaired(arguments[:_MAX_CHARS]))
        if isinstance(value, dict):
            value = next((value[key] for key in ("ids", "topic_ids", "topics", "id", "topic_id") if key in value), None)
        value = _unwrapped(value)
    except _UNREADABLE:
        return None
    items = value if isinstance(value, list) else [value]
    ids = tuple(dict.fromkeys(pick.id for item in items if (pick := _pick(item, "Topic"))))
    return ids or None


def topics_in(arguments: str) -> list[str]:
    """The topics among ``parse_ids``, as the reranker reads them."""
    return [name for name in parse_ids(arguments) or () if parse_topic_id(name) is not None]


def _unwrapped(value: Any) -> Any:
    """The content of a text that is itself JSON, or a list between commas; otherwise ``value``. Raises as ``_repaired``
    does."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith(("{", "[")) and not _KIND_PREFIX.match(text):
        return _repaired(text)
    parts = text.split(",")
    return parts if all(map(_names_topic, parts)) else value


def _names_topic(text: str) -> bool:
    named = parse_item_id(text.strip(), "Topic")
    return named is not None and named[0] in ("Topic", "Session")


def read_id(value: object, kind: str = "Topic") -> str | None:
    """``Topic:42`` for every spelling; any other text as it is, clipped; None for no value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = _text(value)[:_MAX_ID_CHARS].strip()
    session = _SESSION_FILE.match(text)
    if session and (session["kind"] or kind == "Artifact"):
        return ":".join(("Artifact", "session", *filter(None, [session["number"]])))
    named = parse_item_id(text, kind)
    return item_id(*named) if named else text or None


def _text(value: float | str) -> str:
    # Python refuses to print integers of more than 4,300 digits; no id is that long.
    return "" if isinstance(value, int) and abs(value) >= 10**_MAX_ID_CHARS else str(value)


def _picks(value: Any) -> list[Pick] | None:
    lists = list(_lists(value))
    if not lists:
        return None
    items = [(item, kind) for kind, items in lists for item in items]
    picks = [pick for item, kind in items if (pick := _pick(item, kind))]
    return None if items and not picks else picks


def _lists(value: Any) -> Iterator[tuple[str, list[Any]]]:
    """Every list of items with its kind; empty when ``value`` does not have the shape of an answer."""
    if isinstance(value, list):
        if value and all(map(_is_answer, value)):
            for item in value:
                yield from _lists(item)
        else:
            yield "Topic", value
    elif isinstance(value, dict):
        inner = next(iter(value.values()), None) if len(value) == 1 else None
        if _is_answer(inner) and not _is_answer(value):
            yield from _lists(inner)
        for key, kind in _KINDS.items():
            if key in value and value[key] is not None:
                items = _unwrapped(value[key]) if isinstance(value[key], str) else value[key]
                yield kind, items if isinstance(items, list) else [items]


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and bool(_KINDS.keys() & value.keys())


def _pick(item: Any, kind: str) -> Pick | None:
    if not isinstance(item, dict):
        id = read_id(item, kind)
        return Pick(id) if id else None
    id = next((id for key in _ID_KEYS if (id := read_id(item.get(key), kind))), None)
    if id is None:
        return None
    reason = item.get("reason")
    return Pick(id, _clipped(reason.strip()) if isinstance(reason, str) else "", _excerpt(item.get("excerpt")))


def _clipped(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON_CHARS else reason[: _MAX_REASON_CHARS - 1].rstrip() + "…"


def _excerpt(value: Any) -> tuple[ExcerptPart, ...]:
    parts: list[ExcerptPart] = []
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            part = part.get("text") or part.get("id")
        if (isinstance(part, str) and part.strip()) or (isinstance(part, int) and not isinstance(part, bool)):
            parts.append(part)
    return tuple(parts)


_UNREADABLE = (ValueError, RecursionError)


def _values(text: str) -> Iterator[Any]:
    """The JSON values that may be the answer, the likeliest first."""
    whole = _decoded(text)
    if whole is not None:
        yield whole[0]
        return
    found = [*_fenced(text), *embedded(text)]
    # The last object wins: a model that thinks aloud ends with its decision. A bare list in prose may be a citation
    # such as [42], so lists come after objects, and after the repair of a broken object.
    objects = [value for value in found if _is_answer(value)]
    yield from reversed(objects)
    yield from _mended(text)
    # An empty list in the middle of prose is grammar or code; only at the very end is it an answer.
    ends_empty = _LAST_WORD_EMPTY.search(text) is not None
    yield from (value for value in reversed(found) if _is_list_of_ids(value) and (value or ends_empty))


def _is_list_of_ids(value: Any) -> bool:
    return isinstance(value, list) and all(_is_id(item) for item in value)


def _is_id(item: Any) -> bool:
    given = next((item[key] for key in _ID_KEYS if key in item), None) if isinstance(item, dict) else item
    return (id := read_id(given)) is not None and _KIND_PREFIX.match(id) is not None


def _decoded(text: str) -> tuple[Any] | None:
    try:
        return (json.loads(text),)
    except _UNREADABLE:
        return None


def _fenced(text: str) -> Iterator[Any]:
    for block in text.split("```")[1::2]:
        yield from _decoded(_LANGUAGE_WORD.sub("", block).strip()) or ()


def _mended(text: str) -> Iterator[Any]:
    """The answer object, or else the list, that begins somewhere in ``text`` and is broken or cut off."""
    for start in _broken_starts(text):
        try:
            value = _repaired(_CUT_ID.sub("", text[start:]))
        except _UNREADABLE:
            continue
        # Cut off before it named anything: what it would have named is unknown, and not "nothing".
        says_nothing = not _picks(value) and text.count("[", start) > text.count("]", start)
        if (_is_answer(value) and not says_nothing) or (value and _is_list_of_ids(value)):
            yield value


def _broken_starts(text: str) -> Sequence[int]:
    key = _KEY.search(text)
    brace = text.rfind("{", 0, key.start()) if key else -1
    first = OPENING.search(text)
    return [start for start in (brace, first.start() if first else -1) if start >= 0]


def _repaired(text: str) -> Any:
    decoded = _decoded(text)
    return decoded[0] if decoded is not None else json_repair.loads(text, skip_json_loads=True)
