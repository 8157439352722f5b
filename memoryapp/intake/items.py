"""Items that programs keep for a chat user: values of their own under a namespace and a key, found by filter and by
meaning. In: the owner, and what a program writes or asks for. Out: rows of ``StoredItem``. The room imports rows, the
vectors of the search, and chat users; its embedder comes from whoever calls. Recall does not search items."""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, Literal

import numpy as np
from django.db import connection, transaction
from django.db.models import BooleanField, F, FilteredRelation, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone
from django.utils.translation import gettext as _
from numpy.typing import NDArray
from pgvector.django import CosineDistance
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.json_values import storable
from memoryapp.memory import content
from memoryapp.models import ChatUser, ItemVector, RefusedText, StoredItem
from memoryapp.platform import database
from memoryapp.search.vectors import embed_items

# Writes and reads items by their namespace and key. A later value takes the place of an earlier one; None deletes.

# Of one chat user; a search reads all that its namespace holds.
MOST_ITEMS = 100_000
# Characters of an item's text that are searched.
LONGEST_SEARCHED = 10_000
# Seconds in which the vectors of what was just written have to be made; otherwise the worker makes them.
PATIENCE = 5.0
# Items whose vectors a request makes itself.
MOST_AT_ONCE = 100

logger = logging.getLogger(__name__)

Name = tuple[tuple[str, ...], str]


class TooManyItems(Exception):
    """The chat user has no room for another item; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value under its name, or None to delete it. ``text`` is searched; None stands for all texts of the value."""

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any] | None
    text: str | None = None

    @property
    def name(self) -> Name:
        return self.namespace, self.key


def write(owner: ChatUser, written: Sequence[Written]) -> list[StoredItem]:
    """Stores all of ``written`` or nothing; of several with one name the last counts. Returns the rows whose text has
    no vector. Raises TooManyItems and BeingErased."""
    last = {each.name: each for each in written}
    kept = [each for each in last.values() if each.value is not None]
    gone = [name for name, each in last.items() if each.value is None]
    with transaction.atomic():
        # One writer for each owner: calls with the same names in different orders would deadlock.
        database.acquire_until_commit("items", owner.pk)
        content.check_kept(owner)
        named(owner, gone).delete()
        before = {(tuple(row.namespace), row.key): row for row in named(owner, [each.name for each in kept])}
        new = len(kept) - len(before)
        if new > 0 and StoredItem.objects.filter(owner=owner).count() + new > MOST_ITEMS:
            raise TooManyItems(_("A chat user has at most %(most)s items.") % {"most": f"{MOST_ITEMS:,}"})
        rows = _put(owner, kept)
        changed = [row for row in rows if not _is_unchanged(row, before)]
        ItemVector.objects.filter(item__in=changed).delete()
        RefusedText.objects.filter(item__in=changed).delete()
    return [row for row in changed if row.text]


def _is_unchanged(row: StoredItem, before: Mapping[Name, StoredItem]) -> bool:
    earlier = before.get((tuple(row.namespace), row.key))
    return earlier is not None and earlier.text == row.text


def _put(owner: ChatUser, kept: Sequence[Written]) -> list[StoredItem]:
    now = timezone.now()
    rows = [
        StoredItem(
            owner=owner,
            namespace=list(each.namespace),
            key=each.key,
            value=each.value,
            text=searched_text(each),
            created_at=now,
            updated_at=now,
        )
        for each in kept
    ]
    return StoredItem.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["owner", "namespace", "key"],
        update_fields=["value", "text", "updated_at"],
    )


def searched_text(written: Written) -> str:
    """What a search compares: the given text, or all texts of the value, each in a line."""
    text = "\n".join(_texts(written.value)) if written.text is None else written.text
    return text[:LONGEST_SEARCHED].strip()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def read(owner: ChatUser, names: Sequence[Name]) -> dict[Name, StoredItem]:
    """Returns the items that exist, by name."""
    return {(tuple(row.namespace), row.key): row for row in named(owner, names)}


def named(owner: ChatUser, names: Sequence[Name]) -> QuerySet[StoredItem]:
    """The items with these names."""
    found = Q(pk__in=[])
    keys: dict[tuple[str, ...], list[str]] = {}
    for namespace, key in names:
        keys.setdefault(namespace, []).append(key)
    for namespace, own in keys.items():
        found |= Q(namespace=list(namespace), key__in=own)
    return StoredItem.objects.filter(found, owner=owner)


async def embed(embedder: Embedder, rows: Sequence[StoredItem]) -> None:
    """Makes the vectors of a few rows at once, so that they are found by meaning; the worker makes what is left."""
    if not 0 < len(rows) <= MOST_AT_ONCE:
        return
    try:
        async with asyncio.timeout(PATIENCE):
            await embed_items(embedder, rows)
    except (EmbeddingError, TimeoutError) as error:
        logger.warning("Vectors of %d items are left to the worker: %s", len(rows), error)


# Finds items under a namespace, by what their values contain and by meaning.
#
# Filters are those of LangGraph's stores: a field equals a value, or is compared by ``$eq``, ``$ne``, ``$gt``,
# ``$gte``, ``$lt`` and ``$lte``. The database compares JSON: numbers with numbers and texts with texts; a missing
# field is null.

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
    owner: ChatUser, wanted: ItemQuery, profile: int | None = None, vector: NDArray[np.float32] | None = None
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
    return [
        (row, None if row.distance is None else round(1.0 - float(row.distance), 4))
        for row in nearest[wanted.offset : wanted.offset + wanted.limit]
    ]


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


# Lists the namespaces of a chat user's items.

LONGEST_PAGE = 200
ANY = "*"
_LABEL = {"prefix": "namespace[%s] = %s", "suffix": "namespace[cardinality(namespace) - %s] = %s"}
_SQL = table_beside(__file__)
_LIST: str = _SQL["list"]
# More labels than any namespace has.
_ALL = 1_000


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """A namespace begins or ends so; ``*`` stands for any label."""

    at: Literal["prefix", "suffix"]
    path: tuple[str, ...]


def namespaces(
    owner: ChatUser, matching: Sequence[MatchCondition], *, depth: int | None, limit: int, offset: int
) -> list[tuple[str, ...]]:
    """Returns the namespaces that fulfil all conditions, in the order of their labels, cut to ``depth`` labels."""
    found: list[str] = ["owner_id = %s"]
    values: list[int | str] = [depth or _ALL, owner.pk]
    for each in matching:
        found.append("cardinality(namespace) >= %s")
        values.append(len(each.path))
        for place, label in enumerate(each.path):
            if label != ANY:
                found.append(_LABEL[each.at])
                values += [place + 1 if each.at == "prefix" else len(each.path) - place - 1, label]
    with connection.cursor() as cursor:
        cursor.execute(_LIST.format(" AND ".join(found)), [*values, limit, offset])
        return [tuple(labels) for (labels,) in cursor.fetchall()]


# What an item may be, whoever sends it: types whose check is a sentence. Everything else is kept as it came.

MOST_LABELS = 16
MOST_VALUE_CHARS = 200_000
MOST_LEVELS = 32
# The index of names takes no more.
MOST_NAME_BYTES = 2_000


def _storable(value: str) -> str:
    if storable(value) != value:
        raise PydanticCustomError("unstorable", "This text has a character that no database stores")
    return value


def _parts(value: Any, level: int = 0) -> Iterator[str]:
    """Yields the names, texts and numbers of a value. Raises ValueError for what cannot be kept as it is."""
    if level > MOST_LEVELS:
        raise PydanticCustomError("depth", f"A value has at most {MOST_LEVELS} levels")
    if isinstance(value, float) and not isfinite(value):
        raise PydanticCustomError("number", "A value has no number that is infinite or none")
    if isinstance(value, str):
        yield _storable(value)
    elif isinstance(value, Mapping | list):
        yield from (_storable(name) for name in value) if isinstance(value, Mapping) else ()
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _parts(inner, level + 1)
    else:
        yield str(value)


def whole_value(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the value. Raises ValueError for one that is too large or cannot be kept as it is."""
    if value is not None and sum(map(len, _parts(value))) > MOST_VALUE_CHARS:
        raise PydanticCustomError("size", f"A value has at most {MOST_VALUE_CHARS:,} characters")
    return value


STORABLE = AfterValidator(_storable)
_STORABLE_SCHEMA: Any = Field(json_schema_extra={"pattern": r"^[^\u0000]*$"})
Label = Annotated[str, StringConstraints(min_length=1, max_length=200), STORABLE, _STORABLE_SCHEMA]
Namespace = Annotated[list[Label], Field(min_length=1, max_length=MOST_LABELS)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=500), STORABLE, _STORABLE_SCHEMA]
Whole = Annotated[dict[str, Any], AfterValidator(whole_value)]
Value = Annotated[dict[str, Any] | None, AfterValidator(whole_value)]


def _short(name: tuple[list[str], str]) -> tuple[list[str], str]:
    check_name(*name)
    return name


def check_name(namespace: Sequence[str], key: str) -> None:
    """Raises ValueError if labels and key are longer than an index takes."""
    if sum(len(part.encode()) for part in (*namespace, key)) > MOST_NAME_BYTES:
        raise PydanticCustomError("name", "Labels and key have at most 2,000 bytes together")


NameOfItem = Annotated[tuple[Namespace, Key], AfterValidator(_short)]
