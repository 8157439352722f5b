"""A model's JSON indented for reading, from its first characters on."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BEGINS_AS_JSON = re.compile(r'\s*[{\[]\s*["{\[\]}\d-]')
_CLOSES = {"{": "}", "[": "]"}
INDENT = "  "


def begins_as_json(text: str) -> bool:
    """Whether this is how an object or a list begins; prose such as ``[Topic:1] fits`` is not."""
    return _BEGINS_AS_JSON.match(text) is not None


def indented(text: str) -> str:
    """The JSON with an element a line.

    It reads each character once and never goes back, so that the lines of a beginning are the first lines of the whole:
    what somebody reads while it is being written stays where it is.
    """
    return "".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    """The characters, and before the next one what an earlier one made due: a bracket or a comma begins a line."""
    depth, opened, due, quoted, escaped = 0, "", "", False, False
    for char in text:
        if quoted:
            yield char
            quoted, escaped = escaped or char != '"', char == "\\" and not escaped
        elif not char.isspace():
            if char in "}]":
                depth = max(depth - 1, 0)
                due = "" if _CLOSES.get(opened) == char else "\n" + INDENT * depth
            yield due + char
            depth += char in "{["
            due = "\n" + INDENT * depth if char in "{[," else " " if char == ":" else ""
            opened, quoted = char, char == '"'
