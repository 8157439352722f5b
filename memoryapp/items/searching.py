"""Finds items under a namespace, by what their values contain and by meaning.

Filters are those of LangGraph's stores: a field equals a value, or is compared by ``$eq``, ``$ne``, ``$gt``, ``$gte``,
``$lt`` and ``$lte``. The database compares JSON: numbers with numbers and texts with texts; a missing field is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import BooleanField, F, FilteredRelation, Q, QuerySet
from django.db.models.expressions import RawSQL
from numpy.typing import NDArray
from pgvector.django import CosineDistance

from memoryapp.models import ChatUser, StoredItem

_OPERATORS = {"$eq": "=", "$ne": "<>", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_COLUMN = '"memoryapp_storeditem"."value"'
MOST_CONDITIONS = 50
_NULL = "null"


class FilterError(Exception):
    """A filter that cannot be applied; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which items a search wants: those under ``prefix`` whose values fulfil ``filter``, from ``offset`` on."""

    prefix: tuple[str, ...] = ()
    filter: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0


def search(
    owner: ChatUser,
    wanted: ItemQuery,
    profile: int | None = None,
    vector: NDArray[np.float32] | None = None,
) -> list[tuple[StoredItem, float | None]]:
    """Returns the items with their cosines, the nearest to ``vector`` first, then those without a vector of
    the profile of that number. Without a vector the last changed come first. Raises FilterError."""
    rows = under(owner, wanted.prefix)
    for condition in conditions(wanted.filter):
        rows = rows.filter(condition)
    if vector is None:
        latest = rows.order_by("-updated_at", "-pk")[wanted.offset : wanted.offset + wanted.limit]
        return [(row, None) for row in latest]
    compared = rows.annotate(
        found=FilteredRelation("itemvector", condition=Q(itemvector__profile=profile)),
        distance=CosineDistance("found__vector", vector),
    )
    nearest = compared.order_by(F("distance").asc(nulls_last=True), "-updated_at", "-pk")
    return [(row, _cosine(row)) for row in nearest[wanted.offset : wanted.offset + wanted.limit]]


def _cosine(row: Any) -> float | None:
    return None if row.distance is None else round(1.0 - float(row.distance), 4)


def under(owner: ChatUser, prefix: tuple[str, ...]) -> QuerySet[StoredItem]:
    """The items whose namespace begins so."""
    rows = StoredItem.objects.filter(owner=owner)
    return rows.filter(**{f"namespace__0_{len(prefix)}": list(prefix)}) if prefix else rows


def conditions(filter: Mapping[str, Any]) -> Iterator[RawSQL]:
    """The filter as conditions of the database. Raises FilterError."""
    made = list(_conditions((), filter))
    if len(made) > MOST_CONDITIONS:
        raise FilterError(f"A filter has at most {MOST_CONDITIONS} conditions.")
    yield from made


def _conditions(path: tuple[str, ...], filter: Mapping[str, Any]) -> Iterator[RawSQL]:
    for name, wanted in filter.items():
        at = (*path, name)
        if not isinstance(wanted, Mapping):
            yield _comparison(at, "$eq", wanted)
        elif any(key.startswith("$") for key in wanted):
            for operator, value in wanted.items():
                yield _comparison(at, operator, value)
        else:
            yield RawSQL(f"jsonb_typeof({_COLUMN} #> %s) = 'object'", [list(at)], BooleanField())
            yield from _conditions(at, wanted)


def _comparison(path: tuple[str, ...], operator: str, value: Any) -> RawSQL:
    sign = _OPERATORS.get(operator)
    if sign is None:
        known = ", ".join(_OPERATORS)
        raise FilterError(f"{operator[:50]} is no operator of a filter; they are {known}.")
    text = json.dumps(value)
    if sign in ("=", "<>"):
        return RawSQL(
            f"COALESCE({_COLUMN} #> %s, %s::jsonb) {sign} %s::jsonb", [list(path), _NULL, text], BooleanField()
        )
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise FilterError(f"{operator} compares numbers or texts.")
    kind = "string" if isinstance(value, str) else "number"
    # Values of another kind have an order of their own in jsonb, which nobody means.
    sql = f"jsonb_typeof({_COLUMN} #> %s) = %s AND {_COLUMN} #> %s {sign} %s::jsonb"
    return RawSQL(sql, [list(path), kind, list(path), text], BooleanField())
