"""The fields of bodies and parameters: the check of each, and the same rule as a JSON schema for OpenAPI. The length of
a text is checked before it is cleaned. A pattern means the same in the description and in the check."""

import re
from typing import Annotated, Any
from uuid import UUID

from django.urls import reverse
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from memoryapp.curation.change import MOST_REASON_CHARS, MOST_SUMMARY_CHARS
from memoryapp.engine import sight
from memoryapp.engine.memory import LONGEST_PHRASE, LONGEST_PHRASES, MOST_PHRASES, parse_topic_id, topic_id
from memoryapp.engine.parameters import Declaration
from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.importers.record import LONGEST, ROLES
from memoryapp.importers.values import clean
from memoryapp.runs.lifecycle import LONGEST_QUERY
from memoryapp.runs.parameters import all_declarations

# The shape of every refusal, and the exception that an endpoint raises to refuse a request.

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    500: "internal",
    502: "model_failed",
    503: "unavailable",
}
# The codes of the statuses, and further reasons for a 409 or a 429.
EVERY_CODE = (*dict.fromkeys(CODES.values()), "stale", "depends", "erased", "quota_reached", "cap_reached")


class RequestRefused(Exception):
    """Raised to refuse a request, with the status, a sentence for people, and further fields for programs."""

    def __init__(self, status: int, message: str = "", *, code: str = "", wait: float = 0, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.wait = wait
        self.more = more


class NotYet(RequestRefused):
    """Raised for work that goes on after its request: 202, with the address that says what became of it."""

    def __init__(self, message: str, location: str, *, wait: float, **more: Any) -> None:
        super().__init__(202, message, wait=wait, **more)
        self.location = location


class PendingAnswer(BaseModel):
    """The work goes on. A ``GET`` at ``url``, which the header ``Location`` names as well, answers the same until it is
    done, then as the request would have. For a ``run`` that is the run, whose ``state`` becomes ``finished``."""

    message: str
    url: str
    run: str | None = None


class Fault(BaseModel):
    """``code`` is for programs: one for each status, and several for 409. ``message`` is for people."""

    code: Annotated[str, WithJsonSchema({"type": "string", "enum": list(EVERY_CODE)})]
    message: str


class ErrorAnswer(BaseModel):
    """Every refusal has this shape; ``message`` is a sentence in English."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"error": {"code": "not_found", "message": "There is nothing here."}}}
    )

    error: Fault


class Answer(BaseModel):
    """What the API answers. It is made of rows and of values of the domain, whose attributes have the names of its
    fields or of their ``validation_alias``, and of mappings without other keys. What is not given is not sent."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """A later version may answer more."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        schema.pop("additionalProperties", None)
        return schema


def _absolute(url: str, info: SerializationInfo) -> str:
    request = (info.context or {}).get("request")
    return request.build_absolute_uri(url) if request else url


# The path of a run's page, which is sent with the address under which the program asked.
PageUrl = Annotated[
    str,
    BeforeValidator(lambda value: reverse("run", args=[value]) if isinstance(value, UUID) else value),
    PlainSerializer(_absolute),
]
TopicName = Annotated[str, BeforeValidator(lambda value: topic_id(value) if isinstance(value, int) else value)]


class LeftOutMessages(Answer):
    """How many messages of a file or a call were not stored because they are no talk, and why."""

    reason: str
    count: int


EXAMPLE_MESSAGE: dict[str, Any] = {
    "id": "m1",
    "role": "user",
    "author": "Anna",
    "ts": "2026-07-25T14:30:00Z",
    "text": "How do I set up vLLM?",
}
# In messages, of the running conversation that comes with a query.
LONGEST_CONVERSATION = 200
# The largest value of a column of ids.
LARGEST_ID = 2**63 - 1
# One visible character: not white space and not a control character.
VISIBLE = r"[^\s\u0000-\u001f\u0085\ufeff]"
_HAS_VISIBLE = re.compile(VISIBLE)
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
_WORD = r"[A-Za-z0-9_.+-]+"
_DATA_URL = {"type": "string", "pattern": rf"^data:{_WORD}/{_WORD}(?:;[A-Za-z0-9_.+=-]+)*;base64,{_BASE64}$"}


def _name(value: str) -> str:
    if not value.isprintable() or not value.strip():
        raise PydanticCustomError("name", "A chat user's name is one line of printable characters")
    return value.strip()


def _visible(value: str) -> str:
    if not _HAS_VISIBLE.search(value):
        raise PydanticCustomError("blank", "This text has no visible character")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool | str):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


NAME_SCHEMA: dict[str, Any] = {
    "type": "string",
    "maxLength": LONGEST["user"],
    # What is printable only a pattern with classes of Unicode could say, which not every reader of the document knows.
    "minLength": 1,
    "description": "the name of a chat user, one line of printable characters",
    "examples": ["anna"],
}


# NUMBER: a number of JSON, and no text or truth value that Python would take for one.
NUMBER = BeforeValidator(_number)
# STRIPPED: without characters that no database stores and without white space around it. READABLE: not blank.
STRIPPED = AfterValidator(lambda value: str(clean(value)).strip())
READABLE = AfterValidator(_visible)
READABLE_SCHEMA: Any = Field(json_schema_extra={"minLength": 1, "pattern": VISIBLE})

Name = Annotated[str, StringConstraints(max_length=LONGEST["user"]), AfterValidator(_name), WithJsonSchema(NAME_SCHEMA)]
# A name to look up; a name that no chat user can have is just not found.
# The label of a project, one line; empty for the whole memory, or for what is common to all projects.
Project = Annotated[
    str,
    StringConstraints(max_length=sight.LONGEST),
    AfterValidator(lambda text: sight.as_project(str(clean(text)))),
    Field(description="the label of a project or place, one line"),
]
KnownName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST["user"]), STRIPPED]
Query = Annotated[str, StringConstraints(max_length=LONGEST_QUERY), READABLE, STRIPPED, READABLE_SCHEMA]


def _line(field: str, description: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "integer", "null"], "maxLength": LONGEST[field]}
    return {**schema, "description": description} if description else schema


_ROLE = {"enum": list(ROLES)}
# The role of a message in an answer.
Role = Annotated[str, WithJsonSchema(_ROLE)]
_TS = {"description": "ISO 8601 (UTC if it has no zone), or seconds since 1970", "examples": [EXAMPLE_MESSAGE["ts"]]}
_TIME_OR_NOW = f"{_TS['description']}; now, if no message of the call has one"
# A message to store. One that does not fit is listed in `rejected`; the others are stored.
MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "id": {
            "type": ["string", "integer", "null"],
            "maxLength": LONGEST["external_id"],
            "description": "unique for the chat user; a message with a known id is not stored again; made if missing",
        },
        "role": _ROLE,
        "author": _line("author"),
        "ts": {"type": ["string", "number", "null"], "format": "date-time", **_TS, "description": _TIME_OR_NOW},
        "text": {"type": ["string", "integer", "null"], "maxLength": LONGEST["text"]},
        "content": {"description": "instead of text: text, or parts as OpenAI's API has them"},
        "session": _line("session", "groups messages that belong together where their times do not show it"),
        "reply_to": _line("reply_to"),
        "forwarded_from": _line("forwarded_from"),
    },
    "additionalProperties": True,
    "examples": [EXAMPLE_MESSAGE],
}
MESSAGE_OR_REJECTED: dict[str, Any] = {
    "anyOf": [MESSAGE, {"description": "anything else is rejected, and the others are stored"}]
}

_TEXT_PART: dict[str, Any] = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
}
_TURN_PROPERTIES: dict[str, Any] = {
    "id": {"type": ["string", "integer", "null"], "minLength": 1, "maxLength": LONGEST["external_id"]},
    "role": {**_ROLE, "default": "user"},
    "author": _line("author"),
    "ts": {"type": ["string", "number", "null"], "format": "date-time", **_TS},
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
    "examples": [EXAMPLE_MESSAGE, {"role": "assistant", "content": [{"type": "text", "text": "With pip."}]}],
}


def _part(kind: str, inner: dict[str, Any], required: str) -> dict[str, Any]:
    content = {"type": "object", "required": [required], "properties": inner}
    return {"type": "object", "required": ["type", kind], "properties": {"type": {"const": kind}, kind: content}}


PART: dict[str, Any] = {
    "oneOf": [
        _part("image_url", {"url": _DATA_URL}, "url"),
        _part(
            "input_audio",
            {
                "data": {"type": "string", "pattern": f"^{_BASE64}$"},
                "format": {
                    "type": ["string", "null"],
                    "pattern": f"^(?:{_WORD})?$",
                    "description": "wav if none is named",
                },
            },
            "data",
        ),
        _part("file", {"filename": {"type": ["string", "null"]}, "file_data": _DATA_URL}, "file_data"),
    ],
    "examples": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}],
}


def _parameter(declaration: Declaration) -> dict[str, Any]:
    if declaration.options:
        named = {"type": "string", "enum": [*declaration.options]}
        # Of one type each, or no client can be made of it.
        return {"anyOf": [{"type": "boolean"}, named]} if declaration.is_switch else named
    if declaration.is_day:
        return {"type": "string", "pattern": r"^(?:\d{4}-\d{2}-\d{2})?$", "examples": ["2025-05-01"]}
    if declaration.is_phrases:
        phrase = {"type": "string", "maxLength": LONGEST_PHRASE}
        several = {"type": "array", "items": phrase, "maxItems": MOST_PHRASES}
        return {"anyOf": [several, {"type": "string", "maxLength": LONGEST_PHRASES}]}
    if not declaration.is_number:
        return {"type": "string", "maxLength": int(declaration.most)}
    kind = "integer" if declaration.kind is int else "number"
    return {"type": kind, "minimum": declaration.least, "maximum": declaration.most}


PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        name: _parameter(declaration)
        for own, declaration in all_declarations().items()
        for name in filter(None, (own, declaration.also))
    },
    "additionalProperties": False,
    "default": {},
}
STRATEGY: dict[str, Any] = {"enum": list(STRATEGIES), "default": DEFAULT.name}


def after(kind: str, example: str) -> WithJsonSchema:
    """Returns the schema of ``after``: the id of the last row of the previous page, with or without its kind. The
    example stands in the description, since OpenAPI wants ``examples`` of a parameter as an object."""
    first, rest = kind[0], kind[1:]
    named = rf"\[?(?:[{first}{first.lower()}]{rest}:)?[0-9]{{1,18}}\]?"
    described = f"the id of the last row of the page before, such as {example}"
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{named})?$", "default": "", "description": described})


def _topic_number(value: Any) -> int:
    number = parse_topic_id(value)
    if number is None:
        raise PydanticCustomError("topic_id", "This is no id of a topic, such as Topic:42")
    return number


def _message_name(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("message_id", "This is no id of a message, such as m1")
    named: str = clean(str(value))
    return named


TopicId = Annotated[
    int,
    BeforeValidator(_topic_number),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": LARGEST_ID},
                {"type": "string", "pattern": r"^\[?(?:[Tt]opic:)?[0-9]{1,18}\]?$"},
            ],
            "examples": ["Topic:42", 42, "[Topic:42]"],
        }
    ),
]
MessageId = Annotated[
    str,
    BeforeValidator(_message_name),
    WithJsonSchema({"type": ["string", "integer"], "description": "as it was sent", "examples": ["m1"]}),
]
Proposed = Annotated[str, StringConstraints(max_length=MOST_SUMMARY_CHARS), STRIPPED]
Summary = Annotated[str, StringConstraints(max_length=MOST_SUMMARY_CHARS), READABLE, STRIPPED, READABLE_SCHEMA]
Reason = Annotated[str, StringConstraints(max_length=MOST_REASON_CHARS), STRIPPED]


def at_most(most: int, sentence: str) -> BeforeValidator:
    """Refuses a longer list before its items are checked: a body may contain millions, each with a fault."""

    def counted(sent: Any) -> Any:
        if isinstance(sent, list) and len(sent) > most:
            raise RequestRefused(413, sentence)
        return sent

    return BeforeValidator(counted)


class StrictBody(BaseModel):
    """A body that accepts no unknown fields. Only the first unknown field is checked: one is enough for a refusal."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _with_one_unknown(cls, sent: Any) -> Any:
        if not isinstance(sent, dict):
            return sent
        first = next((name for name in sent if name not in cls.model_fields), None)
        return {name: value for name, value in sent.items() if name in cls.model_fields or name == first}


def exemplified(**example: Any) -> ConfigDict:
    """Returns the configuration of a shape with this example."""
    return ConfigDict(json_schema_extra={"example": example})
