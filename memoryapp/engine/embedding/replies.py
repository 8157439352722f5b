"""Reads the replies of ``/embeddings`` endpoints as one row of numbers for each text.

Rows come in OpenAI's ``data``, or in the lists of Ollama, Cohere, Google and older llama.cpp servers; numbers come as a
list or as base64. Gemini leaves out the index 0, others every index, or number all rows 0; then the order counts.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np


def rows_in(answer: Any) -> list[Any] | None:
    """The rows in the order of the reply's indexes; None when the reply has no embeddings."""
    items = answer
    if isinstance(answer, dict):
        items = next((answer[key] for key in ("data", "embeddings") if isinstance(answer.get(key), list)), None)
        if items is None and isinstance(answer.get("embeddings"), dict):
            items = answer["embeddings"].get("float")
    if not isinstance(items, list) or not items:
        return None
    if all(isinstance(item, list) for item in items):
        return items
    if not all(isinstance(item, dict) for item in items):
        return None
    places = _places([item.get("index") for item in items])
    return None if places is None else [_row(items[place]) for place in places]


def _row(item: dict[str, Any]) -> Any:
    return next((item[key] for key in ("embedding", "values", "vector") if key in item), None)


def numbers_in(row: Any) -> Sequence[Any] | None:
    """The numbers of a row: a list, a list in a list, or the base64 of little-endian floats; None for anything else."""
    if isinstance(row, dict):
        row = row.get("float")
    if isinstance(row, list) and len(row) == 1 and isinstance(row[0], list):
        row = row[0]
    if isinstance(row, list):
        return row
    try:
        content = base64.b64decode(row, validate=True) if isinstance(row, str) else b""
    except (binascii.Error, ValueError):
        return None
    return np.frombuffer(content, dtype="<f4").tolist() if content and len(content) % 4 == 0 else None


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
    return index if isinstance(index, int) and not isinstance(index, bool) else -1
