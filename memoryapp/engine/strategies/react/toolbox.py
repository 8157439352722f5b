"""The toolbox of a run: which tools may be called, with what input and for how long, and the event that reports each
call.

Every call is answered. A tool that is not allowed, or whose input is not valid, is refused; a tool that exceeds its
seconds is cancelled. Events of a model that a tool asks are yielded while the tool is running.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from memoryapp.engine.conversation import Tool, ToolResult
from memoryapp.engine.events import Event, ModelProgress, ToolCall
from memoryapp.engine.json_values import to_text
from memoryapp.engine.kinds.react import ToolName, ToolOutcome, ToolUsed
from memoryapp.engine.notes import Note, english
from memoryapp.engine.strategies.ports import SearchTimeout
from memoryapp.engine.strategies.react.shapes import Shape

Emit = Callable[[Event | ModelProgress], None]
# How many characters of an invalid call are stored.
_LONGEST_NAME = 80
_LONGEST_ARGUMENTS = 20_000


class ToolFailed(Exception):
    """The tool cannot answer; the text is a code."""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool as a value: ``run`` makes the output of a valid ``input``, and emits what a model is asked meanwhile.

    ``purpose`` describes it to a model; a tool without one is not offered to models.
    """

    name: ToolName
    input: type[Shape]
    run: Callable[[Any, Emit], Awaitable[Shape]]
    purpose: str = ""


class Toolbox:
    """The ``allowed`` of the tools, each for ``seconds`` at most, and for no more than the run has ``left``.

    After ``use`` the ``result`` is the tool's output, None where there is none. ``step`` is that of the run.
    """

    def __init__(
        self,
        tools: Sequence[AgentTool],
        *,
        allowed: Collection[str],
        seconds: float,
        left: Callable[[], float],
    ) -> None:
        self.step = 0
        self.result: Shape | None = None
        self._tools = {tool.name: tool for tool in tools if tool.name in allowed}
        self._seconds = seconds
        self._left = left

    async def use(
        self, name: str, arguments: Mapping[str, Any], asked_by: Literal["agent", "model"] = "agent"
    ) -> AsyncGenerator[Event | ModelProgress, None]:
        """Call a tool; its ``ToolUsed`` comes last."""
        self.result = None
        heard: asyncio.Queue[Event | ModelProgress | None] = asyncio.Queue()
        task = asyncio.create_task(self._called(name, arguments, asked_by, heard))
        try:
            while (event := await heard.get()) is not None:
                yield event
            yield await task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _called(
        self,
        name: str,
        arguments: Mapping[str, Any],
        asked_by: Literal["agent", "model"],
        heard: asyncio.Queue[Event | ModelProgress | None],
    ) -> ToolUsed:
        began, code = time.monotonic(), ""
        outcome: ToolOutcome = "done"
        given: Mapping[str, Any] = {}
        try:
            tool, input = self._checked(name, arguments)
            given = input.brief()
            async with asyncio.timeout(max(min(self._seconds, self._left()), 0.0)):
                self.result = await tool.run(input, heard.put_nowait)
        except _Refused as refused:
            outcome, code = "refused", str(refused)
        except (TimeoutError, SearchTimeout):
            outcome, code = "late", "out_of_time"
        except ToolFailed as failed:
            outcome, code = "failed", str(failed)
        finally:
            heard.put_nowait(None)
        return self._used(name, given, outcome, code, time.monotonic() - began, asked_by)

    def _checked(self, name: str, arguments: Mapping[str, Any]) -> tuple[AgentTool, Shape]:
        """Raises _Refused for a tool that is not allowed, and for input that is not valid."""
        tool = self._tools.get(name)  # type: ignore[call-overload]
        if tool is None:
            raise _Refused("not_allowed")
        try:
            return tool, tool.input.model_validate(arguments)
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
        asked_by: Literal["agent", "model"],
    ) -> ToolUsed:
        return ToolUsed(
            step=self.step,
            tool=name[:_LONGEST_NAME],
            arguments=given,
            result=self.result.brief() if self.result else {},
            seconds=round(seconds, 6),
            outcome=outcome,
            code=code,
            topics=getattr(self.result, "topics", ()),
            asked_by=asked_by,
        )

    def model_tools(self) -> tuple[Tool, ...]:
        """The allowed tools that a model may call, in the form that a conversation takes."""
        return tuple(Tool(_declaration(tool), self._run, self._refuse) for tool in self._tools.values() if tool.purpose)

    async def _run(self, call: ToolCall, turn: int) -> ToolResult:
        async for event in self.use(call.name, _arguments(call), "model"):
            if isinstance(event, ToolUsed):
                used = event
        content = {"outcome": used.outcome, **({"code": used.code} if used.code else {}), "result": used.result}
        if self.result:
            content["result"] = self.result.model_dump()
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


def _declaration(tool: AgentTool) -> Mapping[str, Any]:
    parameters = tool.input.model_json_schema()
    return {"type": "function", "function": {"name": tool.name, "description": tool.purpose, "parameters": parameters}}
