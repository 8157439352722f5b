"""What a tool is: its name, what it takes, which scopes of a token allow it, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import get_annotations
from typing import Any

from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, ValidationError

from memoryapp.doors.api.access import Scope, owner_named, owner_or_404, values_of
from memoryapp.doors.api.shapes.fields import Answer, RequestRefused
from memoryapp.importers.values import clean
from memoryapp.platform.accounts.tokens import Grant

# Who calls a tool, and whose memory it is about: every call sees one memory alone.


class OneMemory(Grant):
    """A grant narrowed to its one owner, whatever the token opens."""

    @property
    def opens_all(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Caller:
    """A token at an address. ``named`` is the chat user of the address, empty at ``/mcp``."""

    grant: Grant
    named: str
    request: HttpRequest

    @property
    def must_name(self) -> bool:
        """Whether a tool needs the name of a chat user. Asks the database."""
        return not self.named and self._only() is None

    def memory(self, name: str, *, may_be_new: bool = False) -> Memory:
        """Returns the memory of the address, or else of this name. Raises RequestRefused and BeingErased. One of whom
        nothing is known yet is refused, unless it ``may_be_new`` and the token may create any."""
        wanted = clean(self.named or name or self._only() or "").strip()
        if not wanted:
            raise RequestRefused(422, "user: name the chat user whose memory is meant.")
        if may_be_new and self.grant.opens_all and owner_named(self.grant, wanted) is None:
            return Memory(self, self.grant, wanted)
        owner = owner_or_404(self.grant, wanted)
        return Memory(self, OneMemory(self.grant.token, frozenset({owner.pk})), owner.name)

    def _only(self) -> str | None:
        owners = [] if self.grant.opens_all else list(self.grant.visible_owners()[:2])
        return owners[0].name if len(owners) == 1 else None


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as a call sees it: ``grant`` opens nothing else."""

    caller: Caller
    grant: Grant
    name: str

    def values(self, answer: Answer) -> dict[str, Any]:
        """Returns an answer of the API as values of JSON, with addresses under which the agent asked."""
        return values_of(answer, self.caller.request)


class Arguments(BaseModel):
    """The arguments of a tool; an unknown one is refused."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers: ``text`` for a model, ``values`` for programs, as the API under ``/v1/`` shapes them."""

    text: str
    values: dict[str, Any]


Answering = Callable[[Memory, Any], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTool:
    """A tool over one memory. ``changes`` is true if it changes the memory, ``may_be_new`` if it may begin one."""

    title: str
    scopes: tuple[Scope, ...]
    answer: Answering
    changes: bool
    may_be_new: bool

    @property
    def name(self) -> str:
        return self.answer.__name__

    @property
    def description(self) -> str:
        return " ".join((self.answer.__doc__ or "").split())

    @property
    def takes(self) -> type[Arguments]:
        arguments: type[Arguments] = get_annotations(self.answer, eval_str=True)["asked"]
        return arguments

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


# Every tool by its name.
TOOLS: dict[str, MemoryTool] = {}


def tool(
    title: str, *scopes: Scope, changes: bool = False, may_be_new: bool = False
) -> Callable[[Answering], Answering]:
    """Makes a tool of the function: its name and docstring are those that agents see, its ``asked`` are the arguments,
    and any of the scopes of a token allows it."""

    def listed(answer: Answering) -> Answering:
        made = MemoryTool(title=title, scopes=scopes, answer=answer, changes=changes, may_be_new=may_be_new)
        TOOLS[made.name] = made
        return answer

    return listed


def refused(error: ValidationError) -> RequestRefused:
    """Returns the refusal that says the first fault of arguments."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part)[:100] for part in first["loc"])
    return RequestRefused(422, f"{place}: {first['msg']}" if place else first["msg"])
