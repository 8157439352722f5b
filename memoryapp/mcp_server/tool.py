"""What a tool is: its name, what it takes, which scopes of a token allow it, and what it does."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from memoryapp.api.access import Scope
from memoryapp.api.answers import written
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import Answer
from memoryapp.mcp_server.caller import Memory


class Arguments(BaseModel):
    """The arguments of a tool; an unknown one is refused."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers: ``text`` for a model, ``values`` for programs, as the API under ``/v1/`` shapes them."""

    text: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTool:
    """A tool over one memory. ``changes`` is true if it changes the memory, ``may_be_new`` if it may begin one."""

    name: str
    title: str
    description: str
    takes: type[Arguments]
    scopes: tuple[Scope, ...]
    answer: Callable[[Memory, Any], Awaitable[ToolAnswer]]
    changes: bool = False
    may_be_new: bool = False

    def read(self, sent: dict[str, Any]) -> Arguments:
        """Returns the arguments. Raises RequestRefused with the first fault."""
        try:
            return self.takes.model_validate(sent)
        except ValidationError as error:
            raise refused(error) from None

    def schema(self, *, with_user: bool) -> dict[str, Any]:
        """Returns the JSON schema of the arguments, with ``user`` where no address or token says whose memory it is."""
        schema = self.takes.model_json_schema()
        if with_user:
            named = {"type": "string", "description": "the name of the chat user whose memory is meant"}
            schema["properties"] = {"user": named, **schema.get("properties", {})}
            schema["required"] = ["user", *schema.get("required", [])]
        return schema


def refused(error: ValidationError) -> RequestRefused:
    """Returns the refusal that says the first fault of arguments."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part)[:100] for part in first["loc"])
    return RequestRefused(422, f"{place}: {first['msg']}" if place else first["msg"])


def values_of(answer: Answer) -> dict[str, Any]:
    """Returns an answer of the API as values of JSON."""
    values: dict[str, Any] = json.loads(written(answer))
    return values
