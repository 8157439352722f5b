"""Payloads of ``candidates_found`` as versions up to 0.16 stored them, read in today's form.

Topics that the model was not shown were stored as columns of equal length under ``below``; now they are among the
``candidates`` like all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from operator import itemgetter
from typing import Any

from memoryapp.engine.candidates import Candidate

_BY_ITSELF = {"terms", "parts", "found_by", "line", "shown"}
_COLUMNS = tuple(each.name for each in fields(Candidate) if each.name not in _BY_ITSELF)


def upgraded(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload with every candidate in one list, best first; one without columns is returned as it is.

    Raises ValueError for anything that no version stored, such as columns of unequal length: it may come from a file.
    """
    if "below" not in payload:
        return payload
    rest = {name: value for name, value in payload.items() if name != "below"}
    try:
        every = sorted([*payload.get("candidates", ()), *_one_by_one(payload["below"])], key=itemgetter("rank"))
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"The candidates that were not shown cannot be read: {error!r}") from error
    return {**rest, "candidates": every}


def _one_by_one(below: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = {name: below[name] for name in _COLUMNS if below.get(name)}
    terms, parts = below.get("terms", {}), below.get("parts", {})
    found: list[dict[str, Any]] = []
    for place, values in enumerate(zip(*columns.values(), strict=True)):
        row = {"passage_id": 0, **dict(zip(columns, values, strict=True)), "line": "", "shown": False, "found_by": {}}
        added = {name: column[place] for name, column in parts.items() if column[place]}
        found.append({**row, "terms": terms.get(row["id"], {}), "parts": added})
    return found
