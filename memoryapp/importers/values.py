"""Values of a file as the kind that a reader expects: a file comes from strangers, and may have any value anywhere."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.engine.json_values import storable

MOST_DEPTH = 32
# Numbers that are too large for seconds are milliseconds, microseconds or nanoseconds.
_UNITS = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3))
_SECONDS = re.compile(r"-?\d{9,19}(?:\.\d{1,9})?")

Fields = Mapping[str, Any]


class BadRecord(Exception):
    """This record cannot be imported; the text says why."""


def quote(value: object) -> str:
    """Returns a value of the file for a sentence: quoted, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def fields(value: object) -> Fields:
    """Returns an object as it is, and anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """Returns a list as it is, and anything else as an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Returns a text as it is, and anything else as an empty one."""
    return value if isinstance(value, str) else ""


def words(value: object, name: str) -> str:
    """Returns the value as text that can be stored; accepts integers, and null as empty. Raises BadRecord."""
    if isinstance(value, str):
        return storable(value)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadRecord(_("%(name)s must be text, not %(value)s") % {"name": name, "value": quote(value)})


def clean(value: Any, depth: int = 0) -> Any:
    """Returns a JSON value that ``jsonb`` can store. Raises BadRecord when it is nested too deeply."""
    if depth > MOST_DEPTH:
        raise BadRecord(_("it is nested deeper than %(most)s levels") % {"most": MOST_DEPTH})
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {clean(key, depth + 1): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def moment(value: object) -> datetime:
    """Returns an ISO 8601 text, or seconds or parts of seconds since 1970, as an aware time in UTC. A time without a
    zone is in UTC. Raises BadRecord."""
    if value is None or value == "":
        raise BadRecord(_("it has no time"))
    try:
        # A dash as the fifth character excludes a number, and nearly every text has one.
        if isinstance(value, str) and (value[4:5] == "-" or not _SECONDS.fullmatch(value.strip())):
            read = datetime.fromisoformat(value.strip())
            return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return datetime.fromtimestamp(_seconds(float(value) if isinstance(value, str) else value), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise BadRecord(_("%(value)s is not a time such as 2025-07-25T14:30:00Z") % {"value": quote(value)})


def _seconds(value: float) -> float:
    return next((value / parts for least, parts in _UNITS if abs(value) >= least), value)
