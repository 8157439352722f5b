"""JSON that models answer with: the schema that a request sends, and the lenient reading of what comes back.

Models wrap an answer in prose, fences and lists, or break off in the middle. ``mended`` repairs such JSON and
``objects_with`` finds its objects wherever they are. ``answers`` reads the answer of the reranker, which has stricter
rules: there an unreadable answer must never look like an empty choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import json_repair

from memoryapp.engine.storable import storable

TEXT: Mapping[str, Any] = {"type": "string"}
INTEGER: Mapping[str, Any] = {"type": "integer"}
# A longer answer is noise; the bound also limits the work of repairing one.
MOST_ANSWER_CHARS = 100_000


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
