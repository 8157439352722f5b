"""JSON that models answer with: the schema that a request sends, and the lenient reading of what comes back.

Models wrap an answer in prose, fences and lists, or break off in the middle. ``mended`` repairs such JSON and
``objects_with`` finds its objects wherever they are. ``answers`` reads the answer of the reranker, which has stricter
rules: there an unreadable answer must never look like an empty choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import json_repair

from memoryapp.engine.storable import storable

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
    """The schema of a list of such items."""
    return {"type": "array", "items": item}


def object_schema(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an object with exactly these properties: strict providers demand that each is required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


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
    """The JSON of an answer of this ``schema``, if parts of it were written into texts of JSON; None where nothing is
    to unpack."""
    given = decoded(text)
    value = _from_text(given)
    if given is None and '\\"' in text:
        value = _from_text(_escaped(text))
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
    """``value`` with the keys of its objects as the schema writes them: ``Topics`` and ``ID`` are ``topics`` and
    ``id``."""
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


def _escaped(text: str) -> Any:
    """The text of JSON between other words, whose quotation marks are escaped."""
    start, end = text.find('{\\"'), text.rfind("}")
    return decoded(f'"{text[start : end + 1]}"') if 0 <= start < end else None


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
