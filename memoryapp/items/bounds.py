"""What an item may be, whoever sends it: types whose check is a sentence. Everything else is kept as it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from memoryapp.engine.storable import storable

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


Name = Annotated[tuple[Namespace, Key], AfterValidator(_short)]
