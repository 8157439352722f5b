"""Reads the replies of ``/embeddings`` endpoints as one row of numbers for each text.

Rows come in OpenAI's ``data``, or in the lists of Ollama, Cohere, Google, MiniMax and older llama.cpp servers, some
within an envelope (Cloudflare, DashScope); numbers come as a list, as base64, or as JSON in a text. Gemini leaves out
the index 0, others every index, or number all rows 0; then the order counts.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

import numpy as np


def rows_in(answer: Any) -> list[Any] | None:
    """The rows in the order of the reply's indexes; None when the reply has no embeddings."""
    items = _items(answer) if isinstance(answer, dict) else answer
    if not isinstance(items, list) or not items:
        return None
    if len(items) == 1 and isinstance(items[0], dict) and _are_rows(row := _row(items[0])):
        return list(row)
    if all(isinstance(item, list) for item in items):
        return items
    if not all(isinstance(item, dict) for item in items):
        return None
    places = _places([item.get("index", item.get("text_index")) for item in items])
    return None if places is None else [_row(items[place]) for place in places]


def _items(answer: dict[str, Any], depth: int = 2) -> Any:
    """The list of rows in a document, or in its envelope; None where there is none."""
    items = next((answer[key] for key in ("data", "embeddings", "vectors") if isinstance(answer.get(key), list)), None)
    by_type = answer.get("embeddings")
    if items is None and isinstance(by_type, dict):
        items = by_type.get("float", by_type.get("float_"))
    if items is None and isinstance(answer.get("embedding"), list):
        return [answer]
    inner = next((answer[key] for key in ("data", "result", "output") if isinstance(answer.get(key), dict)), None)
    return _items(inner, depth - 1) if items is None and inner and depth else items


def _are_rows(row: Any) -> bool:
    """Whether the vectors of several texts stand in one row."""
    return isinstance(row, list) and len(row) > 1 and all(isinstance(each, list) for each in row)


def _row(item: dict[str, Any]) -> Any:
    return next((item[key] for key in ("embedding", "values", "vector", "dense_embedding") if key in item), None)


def numbers_in(row: Any) -> Sequence[Any] | None:
    """The numbers of a row: a list, a list in a list, or the base64 of little-endian floats; None for anything else."""
    if isinstance(row, dict):
        row = row.get("float")
    if isinstance(row, list) and len(row) == 1 and isinstance(row[0], list):
        row = row[0]
    if isinstance(row, list):
        return row
    if isinstance(row, str) and row.lstrip().startswith("["):
        return _written(row)
    try:
        content = base64.b64decode(row, validate=True) if isinstance(row, str) else b""
    except (binascii.Error, ValueError):
        return None
    return np.frombuffer(content, dtype="<f4").tolist() if content and len(content) % 4 == 0 else None


def _written(row: str) -> Sequence[Any] | None:
    try:
        numbers = json.loads(row)
    except (ValueError, RecursionError):
        return None
    return numbers if isinstance(numbers, list) else None


def _places(indexes: Sequence[Any]) -> list[int] | None:
    """Where in the reply the row of each text is; None when the indexes contradict each other."""
    count = len(indexes)
    given = [_index(index, place) for place, index in enumerate(indexes)]
    if all(index == 0 for index in given):
        return list(range(count))
    if sorted(given) == list(range(1, count + 1)):
        given = [index - 1 for index in given]
    if sorted(given) != list(range(count)):
        return None
    return sorted(range(count), key=given.__getitem__)


def _index(index: Any, place: int) -> int:
    if index is None:
        return place
    if isinstance(index, str) and index.isdecimal() and len(index) < 10:
        return int(index)
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) else -1
