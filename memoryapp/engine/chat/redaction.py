"""Keeps the API key out of everything that is stored and shown.

An endpoint may repeat the key in an error, in a model's answer or in a header. Everything it sends passes through here
before it becomes an event or a line of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from memoryapp.engine.json_values import to_text

_INSTEAD = "[API key]"
# A shorter key is no secret, but a word that local servers accept in place of one; it may appear in plain text.
_SHORTEST = 8

T = TypeVar("T")


def holds(value: object, secret: str) -> bool:
    """Whether any text in ``value`` has the ``secret`` in it, which is found out far quicker than it is replaced."""
    return len(secret) >= _SHORTEST and to_text(secret)[1:-1] in to_text(value)


def redacted(value: T, secret: str) -> T:
    """``value`` with every ``secret`` in its texts replaced, at any depth of mappings, lists and dataclasses."""
    return cast("T", _redacted(value, secret)) if len(secret) >= _SHORTEST else value


def _redacted(value: Any, secret: str) -> Any:
    if isinstance(value, str):
        return value.replace(secret, _INSTEAD)
    if isinstance(value, Mapping):
        return {_redacted(key, secret): _redacted(item, secret) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_redacted(item, secret) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        values: dict[str, Any] = {each.name: _redacted(getattr(value, each.name), secret) for each in fields(value)}
        return replace(value, **values)
    return value


def without_login(address: str) -> str:
    """Returns the URL without the user and password that may precede its host."""
    scheme, slashes, rest = address.partition("//")
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}"


def growing(text: str, secret: str) -> str:
    """``redacted`` for a text that is still growing: without an end that may become the ``secret``."""
    if len(secret) < _SHORTEST:
        return text
    plain = redacted(text, secret)
    begun = next((n for n in range(min(len(secret) - 1, len(plain)), 0, -1) if plain.endswith(secret[:n])), 0)
    return plain[: len(plain) - begun]
