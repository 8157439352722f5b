"""Reads leniently what a model selected.

Models answer with objects, bare numbers, fences, prose around the JSON, or JSON that was cut off. All of these are read
as the same picks, element by element: a bad element does not affect its neighbours. An unreadable answer is None, and
never looks like an empty selection. ``answer_in_words`` reads what is no such JSON but plain to any reader: other keys,
pairs, lines, tables, tags, one sentence. Where anything in it could mean the opposite, it is unreadable."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import json_repair

from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import item_id, parse_item_id, parse_topic_id

# JSON that models answer with: the schema that a request sends, and the lenient reading of what comes back.
#
# Models wrap an answer in prose, fences and lists, or break off in the middle. ``mended`` repairs such JSON and
# ``objects_with`` finds its objects wherever they are. ``answers`` reads the answer of the reranker, which has
# stricter rules: there an unreadable answer must never look like an empty choice.

TEXT: Mapping[str, Any] = {"type": "string"}
INTEGER: Mapping[str, Any] = {"type": "integer"}
# A longer answer is noise; the bound also limits the work of repairing one.
MOST_ANSWER_CHARS = 100_000
_MOST_OPENINGS = 500
# "[" has many uses in prose; JSON continues with one of these characters.
OPENING = re.compile(r"\{(?=\s*[\"'}]|\s*$)|\[(?=\s*[\]\[{\"'\d-]|\s*$)")
# Quotation marks of a word processor in the place of JSON's own.
_CURLY = re.compile("[\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02]")
# How often JSON may be written into a text of JSON.
_MOST_WRAPPINGS = 3


def list_schema(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "array", "items": item}


def object_schema(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an object with exactly these properties: strict providers demand that each is required."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def mended(text: str) -> Any:
    """The JSON value in ``text``, repaired where it is broken; None when there is none."""
    try:
        value = json_repair.loads(text)
    except (ValueError, RecursionError):
        return None
    # The empty text is how json_repair reports that it found nothing.
    return None if value == "" else value


def embedded(text: str) -> list[Any]:
    """Complete JSON values inside ``text``, outermost only, in order."""
    decoder, found, end = json.JSONDecoder(), [], 0
    for tried, match in enumerate(OPENING.finditer(text)):
        if tried >= _MOST_OPENINGS:
            break
        if match.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        found.append(value)
    return found


def decoded(text: str) -> Any:
    """The JSON value that is ``text``, in a fence or not; None when it is anything else."""
    inner = text.strip()
    if inner.startswith("```") and inner.endswith("```"):
        inner = inner.strip("`").strip().removeprefix("json")
    try:
        return json.loads(inner)
    except (ValueError, RecursionError):
        return None


def unpacked(text: str, schema: Mapping[str, Any]) -> Any:
    """The JSON of an answer of this ``schema``, if parts of it are texts of JSON; None where none are."""
    given = decoded(text)
    value = _from_text(given)
    if given is None and '\\"' in text:
        # The text of JSON between other words, whose quotation marks are escaped.
        start, end = text.find('{\\"'), text.rfind("}")
        value = _from_text(decoded(f'"{text[start : end + 1]}"') if 0 <= start < end else None)
    if given is value is None and _CURLY.search(text):
        straight = _CURLY.sub('"', text)
        found = [each for each in embedded(straight) if isinstance(each, Mapping)]
        value = _from_text(decoded(straight)) or (found[-1] if found else None)
    if isinstance(value, Mapping) and fulfils(value.get("properties"), schema):
        # Small models fill in the schema itself.
        value = value["properties"]
    value = _as_named(value, schema)
    if isinstance(value, Mapping) and len(value) == 1 and not value.keys() & schema.get("properties", {}).keys():
        inner = _from_text(next(iter(value.values())))
        value = inner if fulfils(inner, schema) else value
    value = _shaped(_as_named(value, schema), schema)
    return None if value == given else value


def plain_key(key: str) -> str:
    """A key as it is compared: ``toolName``, ``Tool Name`` and ``tool_name`` are one."""
    return "".join(filter(str.isalnum, key.lower()))


def _as_named(value: Any, schema: Mapping[str, Any]) -> Any:
    """``value`` with its keys as the schema writes them: ``Topics`` and ``ID`` are ``topics`` and ``id``."""
    if isinstance(value, list) and (item := schema.get("items")):
        return [_as_named(each, item) for each in value]
    known = {plain_key(key): key for key in schema.get("properties", {})}
    if not (isinstance(value, Mapping) and known):
        return value
    named: dict[str, Any] = {}
    for key, inner in value.items():
        meant = str(key if key in schema["properties"] else known.get(plain_key(key), key))
        if meant == key or meant not in value:
            named[meant] = _as_named(inner, schema["properties"].get(meant, {}))
        else:
            named[key] = inner
    return named


def fulfils(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether ``value`` has all that the schema of an object requires, by its names."""
    return isinstance(value, Mapping) and set(schema.get("required", ())) <= value.keys()


def _from_text(value: Any) -> Any:
    for _ in range(_MOST_WRAPPINGS):
        if not (isinstance(value, str) and value.strip()[:1] in ("{", "[", '"', "`")):
            break
        inner = decoded(value)
        if inner is None:
            break
        value = inner
    return value


def _shaped(value: Any, schema: Mapping[str, Any]) -> Any:
    """``value`` with texts replaced by the lists and objects that the schema has in their places."""
    kind = schema.get("type")
    if kind in ("array", "object"):
        value = _from_text(value)
    if kind == "array" and isinstance(value, Mapping):
        value = _listed(value, schema.get("items", {}))
    if kind == "array" and isinstance(value, list):
        return [_shaped(item, schema.get("items", {})) for item in value]
    if kind == "object" and isinstance(value, Mapping):
        inner = schema.get("properties", {})
        return {key: _shaped(item, inner[key]) if key in inner else item for key, item in value.items()}
    return value


def _listed(value: Mapping[str, Any], item: Mapping[str, Any]) -> Any:
    """The list that an object stands for: of one item, or of items whose first property is the key of each; the object
    itself where it is neither."""
    first, second = [*item.get("properties", {}), "", ""][:2]
    if first in value:
        return [value]
    if second and value and all(isinstance(inner, str) for inner in value.values()):
        return [{first: key, second: inner} for key, inner in value.items()]
    if second and value and all(isinstance(inner, Mapping) for inner in value.values()):
        return [{first: key, **inner} for key, inner in value.items()]
    return value


def breaks_off(text: str) -> bool:
    """Whether the JSON in ``text`` ends before its last bracket is closed: the model was cut off in the middle."""
    start = min((place for bracket in "{[" if (place := text.find(bracket)) >= 0), default=len(text))
    depth, is_quoted, is_escaped = 0, False, False
    for letter in text[start:]:
        if is_escaped or letter == "\\":
            is_escaped = not is_escaped and is_quoted
        elif letter == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (letter in "{[") - (letter in "}]")
    # A quotation mark inside a text that was not escaped leaves a closed answer "quoted".
    is_closed = is_quoted and text.rstrip("` \n").endswith(("}", "]"))
    return depth > 0 and not is_closed


def objects_with(value: Any, key: str) -> list[Mapping[str, Any]]:
    """Every object in a JSON value that has the ``key``, in order; none where the value is nested too deeply."""
    try:
        return list(_objects_with(value, key))
    except RecursionError:
        return []


def _objects_with(value: Any, key: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping) and key in value:
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _objects_with(inner, key)


def line(value: object) -> str:
    """A text of an answer on one line, as a database can hold it; empty for any other value."""
    return " ".join(storable(value).replace("\ufffd", " ").split()) if isinstance(value, str) else ""


def clipped(text: str, most: int) -> str:
    """``text`` of at most ``most`` characters, with an ellipsis at its end where it was cut."""
    return text if len(text) <= most else text[: max(most - 1, 0)].rstrip() + "…"


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
_INNER_TAG = re.compile(r"<(\w{1,20})>([^<>]{0,600})</\1>")
_COMMAS = re.compile(r"[,;|\t]")
_BARE_NUMBER = re.compile(r"^([\s|\"']*+)(\d{1,18})\b")
_REASON_LINE = re.compile(r"\s++reason\s?:\s?(.+)")
_CELLS = re.compile(r"[,;|\t]|\s[\u2013\u2014-]\s|:\s")
_VERB = re.compile(r"(?:is|was|seems|looks|are)\b", re.IGNORECASE)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s|\n")
_NEXT_END = re.compile(r"[.!?](?:\s|$)|\n")
_LAST_WORD_EMPTY = re.compile(r"\[\s*\][\s.`]*\Z")

ExcerptPart = str | int


@dataclass(frozen=True, slots=True)
class Pick:
    """One selected item: ``Topic:42``, or the text found in place of an id. ``excerpt`` holds texts and message ids, as
    the model gave them."""

    id: str
    reason: str = ""
    excerpt: tuple[ExcerptPart, ...] = ()


def parse_answer(text: str) -> tuple[Pick, ...] | None:
    """The model's picks in its order, without repeats. Empty means "nothing relevant", None unreadable."""
    for value in _values(text[:_MAX_CHARS].strip()):
        picks = _picks(value)
        if picks is not None:
            return tuple({pick.id: pick for pick in reversed(picks)}[id] for id in dict.fromkeys(p.id for p in picks))
    return None


def answer_in_words(text: str) -> tuple[Pick, ...] | None:
    """The picks of an answer that ``parse_answer`` cannot read; None where they are not unmistakable."""
    text = text[:_MOST_WORDS_CHARS].strip()
    for reading in (_in_other_json, _in_tags, _in_lines, _in_a_sentence):
        picks = reading(text)
        if picks:
            return tuple({pick.id: pick for pick in reversed(picks)}.values())[::-1]
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
    """The content of a text that is JSON, or a list between commas; else ``value``. Raises as ``_repaired`` does."""
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
    # An empty list in the middle of prose is grammar or code; only at the very end is it an answer, and not behind a
    # list of ids: there it is the last key of YAML.
    ends_empty = _LAST_WORD_EMPTY.search(text) is not None and not any(map(_ENTRY.match, text.splitlines()))
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


_MOST_WORDS_CHARS = 20_000
# How models call what they chose, in front of ``topics`` or alone.
_CHOSEN = re.compile(
    r"(?:most)?(?:selected|selections?|relevant|chosen|choices?|final|picked|picks|best|matching|matches|useful|top"
    r"|recommended|results?)+"
)
_NAMED = re.compile(r"\b(?P<kind>topic|session|person|artifact)\s?:\s?(?P<number>\d{1,18})\b", re.IGNORECASE)
_CHOOSES = re.compile(
    r"\b(?:relevant|select|chos|choose|pick|match|useful|best|answer|need|fit|keep|relevan|auswahl|w\u00e4hl|choisi|retenu"
    r"|pertinent|elegid|seleccion|подход|относ|выбра|выбир|нужн|релевант)",
    re.IGNORECASE,
)
# What may turn a choice round.
_TURNS = re.compile(
    r"\b(?:not?|none|nothing|nobody|low|never|neither|nor|without|except|exclud\w*|reject\w*|irrelevant|unrelated"
    r"|un\w*able|discard\w*|ignor\w*|skip\w*|omit\w*|drop\w*|instead|rather|maybe|perhaps|possibly|false|less|weak\w*"
    r"|dismiss\w*|rul\w+ out|kein\w*|nicht"
    r"|ohne|pas|aucun\w*|sauf|ning\w*|sin|salvo|не|ни|нет|кроме|без|лишн\w*|нерелевант\w*|исключ\w*)\b|n['\u2019]t\b"
    r"|[\u274c\u2717\u2718\u00d7?]",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"[\s,;&/|()\[\]`*\"'+]*(?:(?:and|und|et|y|и)\b[\s,;()\[\]`*\"']*)?", re.IGNORECASE)
_ENTRY = re.compile(
    r"^[\s>*\-\u2022+|\"'`(\[_#]*+(?:\d{1,3}[.)]\s+)?(?:(?:topic_)?id\s?:\s?)?[*_`\"'(\[|]*(?=(?:topic|session|person|artifact)\s?:)",
    re.I,
)
# A figure in the place of a reason may grade what was not chosen.
_GRADE = re.compile(r"[\d.,/%\s]+|(?:high|medium|yes|true|ja|oui|да)\b.*", re.IGNORECASE)
_RULE = re.compile(r"^[\s|:+=\-]*$|^```\w*$")
_ELEMENT = re.compile(
    r"<(?P<tag>topic|session|person|artifact|item|selection|pick|choice)\b(?P<with>[^<>]{0,600})"
    r"(?:/>|>(?P<inner>.{0,2000}?)</(?P=tag)>)",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"<[^<>]{1,200}>")
_ATTRIBUTE = re.compile(r"([a-z_]{1,20})\s?=\s?[\"']([^\"']{0,600})[\"']", re.IGNORECASE)
_EDGES = " \t,;:.|*_`\"'()[]{}\u2013\u2014-"


def _in_other_json(text: str) -> list[Pick] | None:
    """JSON under other keys, in pairs, or as an object a line."""
    whole = decoded(text)
    values = [whole] if whole is not None else embedded(text)
    rows = [value for value in values if isinstance(value, dict) and _is_id(value)]
    if rows and rows == values:
        return _picks(rows)
    return next((picks for value in reversed(values) if (picks := _picks(_usual(value)))), None)


def _usual(value: Any) -> Any:
    """A JSON value with the keys of an answer, and with objects in the place of pairs; None where it has none."""
    if isinstance(value, list):
        items = _as_objects(value)
        return items if all(map(_is_id, items)) else None
    if not isinstance(value, dict):
        return None
    if value and all(map(_is_id, value)) and all(isinstance(inner, str | dict | bool) for inner in value.values()):
        if any(isinstance(inner, str) and _TURNS.match(inner.strip()) for inner in value.values()):
            return None
        chosen = {key: inner for key, inner in value.items() if inner is not False}
        return [{"id": id, **(inner if isinstance(inner, dict) else {"reason": inner})} for id, inner in chosen.items()]
    kinds = {plain_key(key): key for key in _KINDS}
    named: dict[str, Any] = {}
    for key, inner in value.items():
        plain = plain_key(key)
        ends = [end for end in kinds if plain == end or (plain.endswith(end) and _CHOSEN.fullmatch(plain[: -len(end)]))]
        meant = kinds[ends[0]] if ends else None
        items = _as_objects(inner) if isinstance(inner, list) else _usual(inner) or inner
        if meant:
            named.setdefault(meant, items)
        elif _CHOSEN.fullmatch(plain) and isinstance(items, list) and all(map(_is_id, items)):
            named.setdefault("topics", items)
    inner = next(iter(value.values())) if len(value) == 1 else None
    return named or (_usual(inner) if isinstance(inner, dict) else None)


def _as_objects(items: list[Any]) -> list[Any]:
    """The items, with an object in the place of a pair of id and reason, or of one that calls its id a topic."""
    objects = list[Any]()
    for item in items:
        if isinstance(item, list) and 1 <= len(item) <= 3 and _is_id(item[0]):
            item = {"id": item[0], "reason": item[1] if len(item) > 1 else ""}
        elif isinstance(item, dict) and "topic" in item:
            item = {"id": item["topic"], **item}
        objects.append(item)
    return objects


def _in_tags(text: str) -> list[Pick] | None:
    """An element for each pick: its id as an attribute, in a tag of its own, or as all that it has."""
    picks = []
    if _TURNS.search(" ".join(_TAG.findall(text)).replace("?", "").replace("_", " ")):
        return None
    for element in _ELEMENT.finditer(text):
        inner = element["inner"] or ""
        fields = {key.lower(): value for key, value in _ATTRIBUTE.findall(element["with"])}
        fields |= {key.lower(): value for key, value in _INNER_TAG.findall(inner)}
        id = next((fields[key] for key in (*_ID_KEYS, "ref", "name") if key in fields), inner)
        named = parse_item_id(id.strip(), element["tag"] if element["tag"].lower() in _OF_KIND else "Topic")
        if named is None:
            return None
        picks.append(Pick(item_id(*named), _clipped(fields.get("reason", "").strip())))
    return picks


_OF_KIND = ("topic", "session", "person", "artifact")


def _in_lines(text: str) -> list[Pick] | None:
    """A line for each pick, in a list, a table, or between commas: its id first, and then why."""
    lines = [line for line in text.splitlines() if line.strip() and not _RULE.match(line.strip())]
    head = [cell.strip(_EDGES).lower() for cell in _COMMAS.split(lines[0].strip(" |"))] if lines else []
    if len(lines) > 1 and head[0] in _ID_KEYS:
        # A table with a head may have bare numbers.
        lines = [_BARE_NUMBER.sub(r"\1Topic:\2", line) for line in lines[1:]]
    entries = [place for place, line in enumerate(lines) if _ENTRY.match(line)]
    if not entries or any(_TURNS.search(line) for line in lines[: entries[0]]):
        return None
    picks = list[Pick]()
    for place, line in enumerate(lines):
        if place not in entries:
            why = _REASON_LINE.match(line)
            if why and picks:
                picks[-1] = Pick(picks[-1].id, _clipped(why[1].strip(_EDGES)))
                continue
            is_heading = plain_key(line) in _KINDS or line.startswith((" ", "\t"))
            if (entries[0] < place < entries[-1] and not is_heading) or _NAMED.search(line):
                return None
            continue
        ids, rest = _leading_ids(line[_ENTRY.match(line).end() :])  # type: ignore[union-attr]
        cells = [cell.strip(_EDGES) for cell in _CELLS.split(rest)]
        turned = any(_TURNS.match(cell) or _GRADE.fullmatch(cell) for cell in cells[:2] if cell)
        verbs = _VERB.match(rest.strip(_EDGES))
        if turned or _NAMED.search(rest) or (verbs and _TURNS.search(rest)):
            return None
        picks += [Pick(id, _clipped(rest.strip(_EDGES)) if len(ids) == 1 else "") for id in ids]
    return picks


def _leading_ids(text: str) -> tuple[list[str], str]:
    """The ids with which a text begins, with nothing but separators between them, and the rest."""
    ids, at = list[str](), 0
    while named := _NAMED.match(text, _BETWEEN.match(text, at).end() if ids else at):  # type: ignore[union-attr]
        ids.append(item_id(named["kind"].capitalize(), int(named["number"])))
        at = named.end()
    return ids, text[at:]


def _in_a_sentence(text: str) -> list[Pick] | None:
    """The ids of a text that says of them, and of no others, that they are the choice."""
    first = _NAMED.search(text)
    if first is None or _TURNS.search(text):
        return None
    ids, rest = _leading_ids(text[first.start() :])
    before = _SENTENCE_ENDS.split(text[: first.start()])[-1]
    after = _NEXT_END.split(rest)[0]
    words = (before + after).strip(_EDGES)
    says = not words or _CHOOSES.search(words) or plain_key(words) in _KINDS or _CHOSEN.fullmatch(plain_key(words))
    return [Pick(id) for id in ids] if says and not _NAMED.search(rest) else None
