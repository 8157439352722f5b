"""The toolbox of a run: which tools may be called, with what input and for how long, and the event that reports each
call.

Every call is answered. A tool that is not allowed, or whose input is not valid, is refused; a tool that exceeds its
seconds is cancelled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import ValidationError

from memoryapp.engine.budget import Deadline
from memoryapp.engine.conversation import Tool, ToolResult
from memoryapp.engine.emit import Emit, unheard
from memoryapp.engine.events import ToolCall
from memoryapp.engine.json_values import to_text
from memoryapp.engine.kinds.react import ToolName, ToolOutcome, ToolUsed
from memoryapp.engine.notes import Note, english
from memoryapp.engine.strategies.ports import SearchTimeout
from memoryapp.engine.strategies.react.shapes import Shape

Output = TypeVar("Output", bound=Shape)
AskedBy = Literal["agent", "model"]
# The share of the run's remaining seconds that one call may take, so that a late one leaves time to do without it.
_SHARE = 1 / 2
# How many characters of an invalid call are stored.
_LONGEST_NAME = 80
_LONGEST_ARGUMENTS = 20_000


class ToolFailed(Exception):
    """The tool cannot answer; the text is a code."""


@dataclass(frozen=True, slots=True)
class AgentTool(Generic[Output]):
    """A tool as a value: ``run`` makes the output of a valid ``input``, and emits what a model is asked meanwhile.

    ``purpose`` describes it to a model; a tool without one is not offered to models.
    """

    name: ToolName
    input: type[Shape]
    run: Callable[[Any, Emit], Awaitable[Output]]
    purpose: str = ""


class Toolbox:
    """The ``allowed`` of the tools, each for ``seconds`` at most, and no longer than half of what is left until the
    ``deadline`` of the run.

    ``step`` is that of the run.
    """

    def __init__(
        self,
        tools: Sequence[AgentTool[Any]],
        *,
        allowed: Collection[str],
        seconds: float,
        deadline: Deadline,
    ) -> None:
        self.step = 0
        self._tools: Mapping[str, AgentTool[Any]] = {tool.name: tool for tool in tools if tool.name in allowed}
        self._seconds = seconds
        self._deadline = deadline

    async def use(self, tool: AgentTool[Output], arguments: Mapping[str, Any], emit: Emit) -> Output | None:
        """Calls a tool and returns its output, None where there is none. Its ``ToolUsed`` is emitted last."""
        used, output = await self._called(tool, arguments, "agent", emit)
        emit(used)
        return output

    async def _called(
        self, tool: AgentTool[Output], arguments: Mapping[str, Any], asked_by: AskedBy, emit: Emit
    ) -> tuple[ToolUsed, Output | None]:
        began, code = time.monotonic(), ""
        outcome: ToolOutcome = "done"
        given: Mapping[str, Any] = {}
        output: Output | None = None
        try:
            input = self._checked(tool, arguments)
            given = input.brief()
            async with self._deadline.timeout(min(self._seconds, self._deadline.left * _SHARE)):
                output = await tool.run(input, emit)
        except _Refused as refused:
            outcome, code = "refused", str(refused)
        except (TimeoutError, SearchTimeout):
            outcome, code = "late", "out_of_time"
        except ToolFailed as failed:
            outcome, code = "failed", str(failed)
        return self._used(tool.name, given, outcome, code, time.monotonic() - began, asked_by, output), output

    def _checked(self, tool: AgentTool[Any], arguments: Mapping[str, Any]) -> Shape:
        """Raises _Refused for a tool that is not allowed, and for input that is not valid."""
        if tool.name not in self._tools:
            raise _Refused("not_allowed")
        try:
            return tool.input.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise _Refused(f"bad_input: {'.'.join(map(str, first['loc']))} {first['type']}") from None

    def _used(
        self,
        name: str,
        given: Mapping[str, Any],
        outcome: ToolOutcome,
        code: str,
        seconds: float,
        asked_by: AskedBy,
        output: Shape | None = None,
    ) -> ToolUsed:
        return ToolUsed(
            step=self.step,
            tool=name[:_LONGEST_NAME],
            arguments=given,
            result=output.brief() if output else {},
            seconds=round(seconds, 6),
            outcome=outcome,
            code=code,
            topics=getattr(output, "topics", ()),
            asked_by=asked_by,
        )

    def model_tools(self) -> tuple[Tool, ...]:
        """The allowed tools that a model may call, in the form that a conversation takes."""
        return tuple(Tool(_declaration(tool), self._run, self._refuse) for tool in self._tools.values() if tool.purpose)

    async def _run(self, call: ToolCall, turn: int) -> ToolResult:
        used, output = await self._called(self._tools[call.name], _arguments(call), "model", unheard)
        content = {"outcome": used.outcome, **({"code": used.code} if used.code else {}), "result": used.result}
        if output:
            content["result"] = output.model_dump()
        return ToolResult(to_text(content), used)

    def _refuse(self, call: ToolCall, turn: int, why: Note) -> ToolResult:
        late = why.code == "out_of_time"
        used = self._used(call.name, {}, "late" if late else "refused", why.code, 0.0, "model")
        return ToolResult(english([why]), used)


class _Refused(Exception):
    """The call is not valid; the text is a code."""


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of a call; empty for a value that is no object, which no tool accepts."""
    try:
        read = json.loads(call.arguments[:_LONGEST_ARGUMENTS])
    except (ValueError, RecursionError):
        return {"": None}
    return read if isinstance(read, dict) else {"": None}


def _declaration(tool: AgentTool[Any]) -> Mapping[str, Any]:
    parameters = tool.input.model_json_schema()
    return {"type": "function", "function": {"name": tool.name, "description": tool.purpose, "parameters": parameters}}
