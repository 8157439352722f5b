"""The fields of what programs send: how each is checked, and the same as OpenAPI tells it.

Texts are measured as they come and then cleaned; a pattern means the same to whoever reads the description and here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from memoryapp.importers.record import LONGEST, ROLES, clean
from memoryapp.parameters import BOUNDS, STRATEGIES, TOOL_MODES, WHOLE
from memoryapp.runs import LONGEST_QUERY

SAID: dict[str, Any] = {
    "id": "m1",
    "role": "user",
    "author": "Anna",
    "ts": "2026-07-25T14:30:00Z",
    "text": "How do I set up vLLM?",
}
# What a column of ids holds at most.
LARGEST_ID = 2**63 - 1
# One character that shows: no blank and no control character.
VISIBLE = r"[^\s\u0000-\u001f\u0085\ufeff]"
_SHOWS = re.compile(VISIBLE)
_PRINTED = r"[\p{L}\p{M}\p{N}\p{P}\p{S}]"
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
_WORD = r"[A-Za-z0-9_.+-]+"
_DATA_URL = {"type": "string", "pattern": rf"^data:{_WORD}/{_WORD}(?:;[A-Za-z0-9_.+=-]+)*;base64,{_BASE64}$"}


def _name(value: str) -> str:
    if not value.isprintable() or not value.strip():
        raise PydanticCustomError("name", "A chat user's name is one line of printable characters")
    return value.strip()


def _shown(value: str) -> str:
    if not _SHOWS.search(value):
        raise PydanticCustomError("blank", "There is nothing to read in this text")
    return value


def _stripped(value: str) -> str:
    return str(clean(value)).strip()


NAME_SCHEMA: dict[str, Any] = {
    "type": "string",
    "maxLength": LONGEST["user"],
    "pattern": rf"^ *{_PRINTED}(?:{_PRINTED}| )*$",
    "description": "the name of a chat user, one line of printable characters",
    "examples": ["anna"],
}


# Text is kept without what no database stores, and without blanks around it; READABLE has something to read in it.
STRIPPED = AfterValidator(_stripped)
READABLE = AfterValidator(_shown)
READABLE_SCHEMA: Any = Field(json_schema_extra={"minLength": 1, "pattern": VISIBLE})

Name = Annotated[str, StringConstraints(max_length=LONGEST["user"]), AfterValidator(_name), WithJsonSchema(NAME_SCHEMA)]
# A name to look up: what none can have is not found.
KnownName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST["user"]), STRIPPED]
Query = Annotated[str, StringConstraints(max_length=LONGEST_QUERY), READABLE, STRIPPED, READABLE_SCHEMA]


def _line(field: str, description: str = "") -> dict[str, Any]:
    told: dict[str, Any] = {"type": ["string", "integer", "null"], "maxLength": LONGEST[field]}
    return {**told, "description": description} if description else told


_ROLE = {"enum": list(ROLES)}
_TS = {"description": "ISO 8601, without a zone it is UTC; or seconds since 1970", "examples": [SAID["ts"]]}
# What the list of messages takes. One that is otherwise is named among the rejected ones, and the others are kept.
MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "role", "ts", "text"],
    "properties": {
        "id": {
            "type": ["string", "integer"],
            "maxLength": LONGEST["external_id"],
            "description": "unique within the chat user; the same id is stored once",
        },
        "role": _ROLE,
        "author": _line("author"),
        "ts": {"type": ["string", "number"], "format": "date-time", **_TS},
        "text": {"type": ["string", "integer"], "maxLength": LONGEST["text"]},
        "session": _line("session", "what belongs together, where times cannot tell"),
        "reply_to": _line("reply_to"),
        "forwarded_from": _line("forwarded_from"),
    },
    "additionalProperties": True,
    "examples": [SAID],
}
SENT: dict[str, Any] = {"anyOf": [MESSAGE, {"description": "anything else is rejected by itself"}]}

_TEXT_PART: dict[str, Any] = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
}
_TURN_PROPERTIES: dict[str, Any] = {
    "id": {"type": ["string", "integer", "null"], "minLength": 1, "maxLength": LONGEST["external_id"]},
    "role": {**_ROLE, "default": "user"},
    "author": _line("author"),
    "ts": {"type": ["string", "null"], "format": "date-time", **_TS},
    "session": _line("session"),
    "forwarded_from": _line("forwarded_from"),
}
_CONTENT: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": _TEXT_PART}],
    "description": "text, or OpenAI's content parts of type text",
}
# A message of the running conversation, by ``text`` or by ``content``.
TURN: dict[str, Any] = {
    "type": "object",
    "properties": _TURN_PROPERTIES,
    "oneOf": [
        {"required": ["text"], "properties": {"text": {"type": "string"}, "content": {"type": "null"}}},
        {"required": ["content"], "properties": {"content": _CONTENT, "text": {"type": "null"}}},
    ],
    "additionalProperties": True,
    "examples": [SAID, {"role": "assistant", "content": [{"type": "text", "text": "With pip."}]}],
}


def _part(kind: str, inner: dict[str, Any], required: str) -> dict[str, Any]:
    held = {"type": "object", "required": [required], "properties": inner}
    return {"type": "object", "required": ["type", kind], "properties": {"type": {"const": kind}, kind: held}}


PART: dict[str, Any] = {
    "oneOf": [
        _part("image_url", {"url": _DATA_URL}, "url"),
        _part(
            "input_audio",
            {
                "data": {"type": "string", "pattern": f"^{_BASE64}$"},
                "format": {"type": ["string", "null"], "pattern": f"^{_WORD}$", "description": "wav if none is named"},
            },
            "data",
        ),
        _part("file", {"filename": {"type": ["string", "null"]}, "file_data": _DATA_URL}, "file_data"),
    ],
    "examples": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}],
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        **{
            name: {"type": "integer" if name in WHOLE else "number", "minimum": least, "maximum": most}
            for name, (least, most) in BOUNDS.items()
        },
        "tool_mode": {"enum": list(TOOL_MODES)},
    },
    "additionalProperties": False,
    "default": {},
}
STRATEGY: dict[str, Any] = {"enum": list(STRATEGIES), "default": STRATEGIES[0]}


def after(kind: str, example: str) -> WithJsonSchema:
    """How OpenAPI is told of ``after``: the id of the last row there was, with its kind or without."""
    first, rest = kind[0], kind[1:]
    named = rf"\[?(?:[{first}{first.lower()}]{rest}:)?[0-9]{{1,18}}\]?"
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{named})?$", "default": "", "examples": [example]})
