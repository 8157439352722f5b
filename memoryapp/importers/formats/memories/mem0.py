"""What mem0 remembers: memories as ``get_all`` and its platform return them, as OpenMemory exports them, or as lines. A
memory is a sentence about a user, so it becomes a fact, not a message. A memory that was deleted or archived there is
left out; one whose text is empty is rejected."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers import document as lines
from memoryapp.importers.document import JsonDocument
from memoryapp.importers.format import DocumentLayout, Format, Hints, LinesLayout, Reader
from memoryapp.importers.record import Clock, Distilled, LeftOut, Rejected
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, Fields, clean, fields, items, quote, text

# The places of memories in a document, in ijson's notation: of a list, of an answer, of OpenMemory's backup.
_LISTS = ("results", "memories")
_GONE = ("deleted", "archived")
_NAMES = {"userId": "user_id", "createdAt": "created_at", "updatedAt": "updated_at"}
MOST_CHARS = 10_000
MOST_CATEGORY = 100

Memories = Iterable[tuple[int | str, object]]


def is_memory(value: object) -> bool:
    """Whether a value is a memory: of an answer, of OpenMemory's backup, or a point of a vector store."""
    if not isinstance(value, Mapping) or "role" in value:
        return False
    if isinstance(value.get("memory"), str):
        return not value.keys().isdisjoint(("id", "hash", "user_id", "created_at", "userId", "createdAt"))
    if isinstance(value.get("content"), str) and "state" in value:
        return "id" in value and not value.keys().isdisjoint(("categories", "category_ids"))
    payload = fields(value.get("payload"))
    return isinstance(payload.get("data"), str) and "hash" in payload


def recognises(value: object) -> bool:
    return any(is_memory(item) for item in items(_listed(value))[:20])


def _listed(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)


def read(memories: Memories, names: Mapping[str, str], user: str, clock: Clock) -> Iterator[Distilled | Rejected]:
    """Yields a fact for each memory; ``names`` are categories by id, ``user`` is whose they all are, if known."""
    for place, item in memories:
        if isinstance(item, Rejected):
            yield item
            continue
        whose = user or _user(item)
        try:
            yield _fact(item, names, whose, place, clock)
        except BadRecord as error:
            yield Rejected(place, str(error), whose)


def _user(item: object) -> str:
    """Returns whose memory it is; empty if the file does not say it."""
    value = _flat(item).get("user_id")
    return str(clean(value)).strip()[:200] if isinstance(value, str) else ""


def _flat(item: object) -> Fields:
    """Returns the fields of a memory by their usual names. Those of a point of a vector store are in its payload; mem0
    for TypeScript writes them in its own way."""
    value = fields(item)
    payload = fields(value.get("payload"))
    value = {**payload, "memory": payload.get("data"), "id": value.get("id")} if payload else value
    return {_NAMES.get(name, name): each for name, each in value.items()}


def _fact(item: object, names: Mapping[str, str], user: str, place: int | str, clock: Clock) -> Distilled | Rejected:
    if not isinstance(item, Mapping):
        raise BadRecord(_("a memory must be a JSON object, not %(value)s") % {"value": quote(item)})
    value = _flat(item)
    if value.get("state") in _GONE:
        return LeftOut(place, _("it was deleted or archived there"), user)
    content = text(value.get("memory") or value.get("content")).strip()
    if not content:
        raise BadRecord(_("it has no text"))
    if len(content) > MOST_CHARS:
        raise BadRecord(
            _("%(name)s is longer than %(most)s characters") % {"name": "memory", "most": f"{MOST_CHARS:,}"}
        )
    found = {
        "relation": "note",
        "category": _category(value, names) or "mem0",
        "content": content,
        "type": "context",
        "importance": 50,
        "created_at": clock.read(value.get("created_at") or value.get("updated_at")),
    }
    return Distilled("fact", user, str(place), clean(found))


def _category(value: Fields, names: Mapping[str, str]) -> str:
    listed = [*items(value.get("categories")), *(names.get(str(key), "") for key in items(value.get("category_ids")))]
    return next((each.strip()[:MOST_CATEGORY] for each in listed if isinstance(each, str) and each.strip()), "")


def _reader(memories: Any, names: Mapping[str, str], user: str) -> Reader:
    def users(_clock: Clock) -> set[str]:
        return {user} if user else {_user(item) for _place, item in memories()}

    return Reader(lambda _clock: iter(()), users, lambda clock: read(memories(), names, user, clock))


def open_document(document: JsonDocument, outline: object, hints: Hints) -> Reader:
    """Returns the reader of a list of memories, of an answer with one, or of OpenMemory's backup of one user."""
    place = next((name for name in _LISTS if name in fields(outline)), "")
    rest = document.without(place) if place else {}
    names = {str(each.get("id")): text(each.get("name")) for each in map(fields, items(rest.get("categories")))}
    user = text(fields(rest.get("user")).get("user_id"))

    def memories() -> Iterator[tuple[str, object]]:
        for index, item in enumerate(document.items(f"{place}.item".lstrip("."))):
            yield f"{place}[{index}]", item

    return _reader(memories, names, user)


def open_lines(source: SourceFile, hints: Hints) -> Reader:
    return _reader(partial(lines.values, source), {}, "")


FORMAT = Format(
    "mem0",
    "mem0",
    (LinesLayout(is_memory, open_lines, members=()), DocumentLayout(recognises, open_document, ("memories.json",))),
)
