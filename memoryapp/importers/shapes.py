"""Values of a file as the kind that a reader expects, or as nothing, because a file may have any value anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]


def fields(value: object) -> Fields:
    """Returns an object as it is, and anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """Returns a list as it is, and anything else as an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Returns a text as it is, and anything else as an empty one."""
    return value if isinstance(value, str) else ""
