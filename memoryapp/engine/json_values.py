"""Frozen dataclasses to JSON text and back. A run stores some two hundred candidates in one value, and every run pays
for that, so nothing is copied or looked up twice: orjson writes dataclasses directly, and the way to build a class is
computed once."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import orjson

# Text that PostgreSQL and UTF-8 can store, whatever its origin.

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """``text`` with U+FFFD in place of each NUL and each lone surrogate; same length."""
    # Most chats in English are ASCII; Python knows that without reading the text.
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)


# The type of a field whose texts are codes of programs and nobody's words; a field of a Literal is one too. Whatever is
# not declared so counts as text that somebody may have written: ``rewritten`` reaches it.
Code = Annotated[str, "code"]
# What ends the path of a key that is text.
KEY = "{}"
# A changed text, from the text and the names of the fields that lead to it.
Change = Callable[[str, tuple[str, ...]], str]
# Of a document that is read at once, such as a body or a line: several times what the largest honest ones have.
MOST_VALUES = 1_000_000
_QUOTE = ord('"')
# A text, which may hold any of the characters, or a character before another value.
_VALUES = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)


def has_more_values(content: bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has more than about ``most`` values: its objects, lists and commas are counted. They are counted
    before anything is made of them, for a value of two bytes takes hundreds in memory."""
    # Two bytes are the least that a value takes.
    if len(content) <= 2 * most:
        return False
    counted = (found for found in _VALUES.finditer(content) if found[0][0] != _QUOTE)
    return next(islice(counted, most, None), None) is not None


def to_text(value: Any) -> str:
    """``value`` as JSON text that a database can store: characters that are not ``storable`` are replaced."""
    try:
        text = orjson.dumps(value, default=_as_mapping).decode()
    except TypeError:
        # Lone surrogates and numbers beyond 64 bits; only Python's own writer accepts them.
        text = storable(_dumped(value))
    return _dumped(_without_nul(json.loads(text))) if "\\u0000" in text else text


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_mapping)


def build(shape: Any, payload: Mapping[str, Any]) -> Any:
    """The dataclass ``shape`` from the result of ``to_text``; unknown names are ignored. Raises ValueError with the
    names of missing fields that have no default."""
    readers, required = _plan(shape)
    if not required <= payload.keys():
        missing = [name for name in readers if name in required and name not in payload]
        raise ValueError(f"{shape.__name__} lacks {', '.join(missing)}")
    return shape(**{name: read(payload[name]) for name, read in readers.items() if name in payload})


def _as_mapping(value: Any) -> dict[str, Any]:
    """One level of a value that orjson cannot write by itself."""
    if isinstance(value, Mapping):
        return dict(value)
    return {name: getattr(value, name) for name in _names(value.__class__)}


@cache
def _names(shape: Any) -> tuple[str, ...]:
    """The fields of a dataclass. Raises TypeError for anything else."""
    return tuple(f.name for f in fields(shape))


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list) else value


@cache
def _plan(shape: Any) -> tuple[Mapping[str, Callable[[Any], Any]], frozenset[str]]:
    """How to read each field, and which fields are required."""
    hints = get_type_hints(shape)
    required = {f.name for f in fields(shape) if f.default is MISSING and f.default_factory is MISSING}
    return {name: _reader(hints[name]) for name in _names(shape)}, frozenset(required)


def _reader(hint: Any) -> Callable[[Any], Any]:
    if get_origin(hint) is tuple:
        item = _reader(get_args(hint)[0])
        return lambda value: tuple(map(item, value))
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value: build(hint, value) if isinstance(value, Mapping) else value
    return lambda value: value


def rewritten(hint: Any, value: Any, change: Change, path: tuple[str, ...] = ()) -> Any:
    """The JSON value of a ``hint`` such as a dataclass, with every text changed that is not declared as a code; fields
    that no declaration names are text."""
    if isinstance(value, str):
        is_code = hint == Code or (get_origin(hint) is Literal and value in get_args(hint))
        return value if is_code else change(value, path)
    if isinstance(value, list):
        item = get_args(hint)[0] if get_origin(hint) in (tuple, Sequence) else Any
        return [rewritten(item, each, change, path) for each in value]
    if not isinstance(value, Mapping):
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _hints(hint)
        return {name: rewritten(hints.get(name), each, change, (*path, name)) for name, each in value.items()}
    of_key, of_item = get_args(hint) if get_origin(hint) is Mapping else (str, Any)
    return {
        rewritten(of_key, name, change, (*path, KEY)): rewritten(of_item, each, change, (*path, name))
        for name, each in value.items()
    }


def code_names(shapes: Iterable[Any]) -> frozenset[str]:
    """The names of fields that are codes in these dataclasses and those inside, and text in none of them."""
    declared = [each for shape in shapes for each in _inside(shape)]
    texts = {name for name, hint in declared if hint is str}
    return frozenset(name for name, hint in declared if hint == Code or get_origin(hint) is Literal) - texts


@cache
def _hints(shape: Any) -> Mapping[str, Any]:
    return get_type_hints(shape, include_extras=True)


def _inside(shape: Any) -> Iterator[tuple[str, Any]]:
    for name in _names(shape):
        hint = _hints(shape)[name]
        yield name, hint
        for part in (hint, *get_args(hint)):
            if is_dataclass(part):
                yield from _inside(part)


def positive(value: Any) -> float:
    """A positive number of a sensible size; 0 for any other value."""
    plain = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return float(value) if plain and math.isfinite(value) and value > 0 else 0.0
