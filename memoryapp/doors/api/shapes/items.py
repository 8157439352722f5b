"""The bodies and answers of items that programs keep under a namespace and a key."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from memoryapp.doors.api.shapes.fields import NUMBER, Answer, KnownName, Name, Query, StrictBody, at_most, exemplified
from memoryapp.intake.items import (
    LONGEST_PAGE,
    MOST_LABELS,
    MOST_VALUE_CHARS,
    STORABLE,
    Key,
    Label,
    Namespace,
    Value,
    check_name,
    whole_value,
)

MOST_A_CALL = 1_000
LARGEST_OFFSET = 1_000_000
Prefix = Annotated[list[Label], Field(max_length=MOST_LABELS)]
_EXAMPLE = {"namespace": ["memories", "food"], "key": "k1", "value": {"text": "Likes honey cake", "weight": 3}}


_Limit = Annotated[int, Field(ge=1, le=LONGEST_PAGE), NUMBER]
_Offset = Annotated[int, Field(ge=0, le=LARGEST_OFFSET), NUMBER]


def _bounded(what: str) -> Any:
    return at_most(MOST_A_CALL, f"At most {MOST_A_CALL:,} {what} a call.")


class ItemName(StrictBody):
    """Where an item is kept: in UTF-8 labels and key have at most 2,000 bytes together."""

    namespace: Namespace
    key: Key

    @model_validator(mode="after")
    def _short(self) -> Self:
        check_name(self.namespace, self.key)
        return self


class WrittenItem(ItemName):
    """A value to keep, or null to delete the item. ``text`` is what a search compares by meaning: without it all texts
    of the value, and nothing if it is empty; of a long one its first 10,000 characters."""

    value: Value
    text: Annotated[str, StringConstraints(max_length=MOST_VALUE_CHARS), STORABLE] | None = None


class WriteItemsBody(StrictBody):
    """Up to 1,000 items of one chat user. Of several with one name the last counts."""

    model_config = exemplified(user="anna", items=[_EXAMPLE])

    user: Name
    items: Annotated[list[WrittenItem], Field(json_schema_extra={"maxItems": MOST_A_CALL}), _bounded("items")]


class ReadItemsBody(StrictBody):
    """The names of up to 1,000 items."""

    model_config = exemplified(user="anna", items=[{"namespace": ["memories", "food"], "key": "k1"}])

    user: KnownName
    items: Annotated[list[ItemName], Field(json_schema_extra={"maxItems": MOST_A_CALL}), _bounded("names")]


class SearchItemsBody(StrictBody):
    """Items whose namespace begins with ``prefix`` and whose value fulfils ``filter``, the nearest to ``query`` first,
    or without one the last changed. A filter names fields of the value: ``{"color": "red", "weight": {"$gte": 3}}``,
    with ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt`` and ``$lte``."""

    model_config = exemplified(user="anna", prefix=["memories"], query="What does she like?", filter={"weight": 3})

    user: KnownName
    prefix: Prefix = []
    query: Query | None = None
    filter: Annotated[dict[str, Any], AfterValidator(whole_value)] = {}
    limit: _Limit = 10
    offset: _Offset = 0


class NamespaceCondition(StrictBody):
    """A namespace begins (``prefix``) or ends (``suffix``) with this path; ``*`` is any label."""

    at: Literal["prefix", "suffix"]
    path: Prefix


class NamespacesBody(StrictBody):
    """The namespaces that fulfil all conditions, cut to ``depth`` labels."""

    model_config = exemplified(user="anna", conditions=[{"at": "prefix", "path": ["memories"]}], depth=2)

    user: KnownName
    conditions: Annotated[list[NamespaceCondition], Field(max_length=10)] = []
    depth: Annotated[int, Field(ge=1, le=MOST_LABELS), NUMBER] | None = None
    limit: _Limit = 100
    offset: _Offset = 0


class KeptItem(Answer):
    """An item. ``score`` is the cosine of its text and the query; null if it has no vector, or without a query."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = None


class WrittenItemsAnswer(Answer):
    """How many items are kept, and how many were named to be deleted."""

    written: int
    deleted: int


class ItemsAnswer(Answer):
    """Items; those that were asked for and do not exist are missing."""

    items: list[KeptItem]


class NamespacesAnswer(Answer):
    """Namespaces in the order of their labels."""

    namespaces: list[list[str]]
