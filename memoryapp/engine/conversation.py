"""Conversations with a chat model: the only place where a model is asked, once or over several turns.

A ``Conversation`` owns the messages, the tools and the remaining time. A turn emits its events and returns what the
model answered, or the reason why the conversation cannot continue. Every turn follows the same rules: when an endpoint
refuses media, the model is asked again with the text alone; after an empty reply it is asked again; a refusal to answer
is a failure."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, cast

from memoryapp.engine import events
from memoryapp.engine.budget import Deadline, Usage
from memoryapp.engine.chat.media import MediaContent, names_media, text_of, with_media
from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, LLMRefused, LLMTimeout, PartialReply, Reply
from memoryapp.engine.emit import Emit
from memoryapp.engine.json_values import to_text
from memoryapp.engine.notes import Note, english
from memoryapp.engine.prompts.prompt import PromptText, rendered
from memoryapp.engine.text.lines import one_line

# The client gives up slightly earlier than the turn, so that its own error is reported: it names the endpoint and what
# failed attempts cost.
_CLIENTS_SHARE = 0.97

ToolChoice = Literal["forced", "auto", "none"]
Cause = Literal[
    "timeout", "turn_timeout", "llm_error", "empty_response", "refused", "content_filter", "parse_error", "cut"
]
_Step = events.Retried | events.SteppedDown | PartialReply | Reply


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why there is no usable reply. ``words`` are those of the client or the model, possibly empty.
    ``spent`` is what failed attempts were billed, ``status`` the HTTP status if the endpoint answered. ``is_final``
    means that the endpoint would refuse the same request again. ``note`` is what the client says, as a code."""

    cause: Cause
    words: str = ""
    spent: Usage = Usage()
    is_final: bool = False
    status: int = 0
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call: the content of the tool message, and the event that reports it."""

    content: str
    event: events.Event


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call. ``declaration`` has OpenAI's format. ``run`` answers a call; it is given the number
    of the turn. ``refuse`` answers a call that is not run, with a note that says why; ``out_of_time`` is the note for a
    call that took too long. The first tool of a conversation also refuses calls of tools that do not exist."""

    declaration: Mapping[str, Any]
    run: Callable[[events.ToolCall, int], Awaitable[ToolResult]]
    refuse: Callable[[events.ToolCall, int, Note], ToolResult]
    out_of_time: Note = Note("out_of_time")

    @property
    def name(self) -> str:
        return str(self.declaration["function"]["name"])


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """``seconds`` bounds the whole conversation from its first turn on, ``turn_seconds`` one call of the model with its
    retries. After ``empty_replies`` replies without content the conversation fails. Media that an endpoint refuses are
    left out, unless the conversation ``needs_media``."""

    seconds: float
    turn_seconds: float
    empty_replies: int = 2
    needs_media: bool = False


class Conversation:
    """One conversation. It begins with the prompt ``text``, filled with ``variables``, and the ``media``. ``turns``
    counts calls of the model, ``tool_turns`` the replies whose tool calls were answered, ``waited`` the seconds spent
    waiting for the model. Raises KeyError or ValueError for a prompt that ``prompts.faults`` would have rejected."""

    def __init__(
        self,
        chat: Chat,
        text: PromptText,
        variables: Mapping[str, str],
        *,
        limits: TurnLimits,
        tools: Sequence[Tool] = (),
        media: Sequence[MediaContent] = (),
    ) -> None:
        self.waited = 0.0
        self.turns = 0
        self.tool_turns = 0
        self._chat = chat
        self._text = text
        self._variables = variables
        self._limits = limits
        self._deadline: Deadline | None = None
        self._tools = {tool.name: tool for tool in tools}
        self._given = tuple(media)
        self._heard = PartialReply("", "")
        self._open(self._given)

    def _open(self, media: Sequence[MediaContent]) -> None:
        """Starts again with the prompt alone."""
        self._messages = self._opening(media)
        self._media = tuple(media)
        self._reported = 0
        self._empty_replies = 0

    def _opening(self, media: Sequence[MediaContent]) -> list[Mapping[str, Any]]:
        system, user = rendered(self._text, self._variables)
        return [system, with_media(user, media)]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's name and the first request."""
        opening = [self._chat.model, *self._opening(self._given)]
        return hashlib.sha256(to_text(opening).encode()).hexdigest()

    def say(self, text: str) -> None:
        """Adds a message from the program to the next turn."""
        self._messages.append({"role": "user", "content": text})

    def keep(self, reply: Reply) -> None:
        """Includes the model's reply, unchanged, in the next turn."""
        self._messages.append(_assistant_message(reply))

    async def turn(
        self, emit: Emit, *, tool_choice: ToolChoice = "none", schema: Mapping[str, Any] | None = None
    ) -> Reply | Failure:
        """Asks the model until it has replied or failed. ``schema`` requests an answer in that format."""
        deadline = self._deadline = self._deadline or Deadline(self._limits.seconds)
        loop = asyncio.get_running_loop()
        while (left := deadline.left) > 0:
            self.turns += 1
            emit(self._started(tool_choice, schema))
            seconds, began = min(left, self._limits.turn_seconds), loop.time()
            late: Cause = "timeout" if left <= self._limits.turn_seconds else "turn_timeout"
            request = self._request(tool_choice, schema, seconds * _CLIENTS_SHARE)
            try:
                outcome = await self._outcome(request, seconds, late, emit)
            except asyncio.CancelledError:
                cut_off = Note("turn_cut_off", {"seconds": loop.time() - began})
                emit(self._replied(Failure("timeout", note=cut_off), loop.time() - began))
                raise
            waited = loop.time() - began
            self.waited += waited
            emit(self._replied(outcome, waited))
            if refusal := self._refusal_of_media(outcome):
                self._open(())
                emit(events.SteppedDown("media", "the text alone", refusal))
            elif judged := self._judged(outcome):
                return judged
        return Failure("timeout")

    async def answer_calls(self, reply: Reply, emit: Emit) -> Failure | None:
        """Answers each tool call of the reply, in order. Returns a failure when the time ends before."""
        assert self._deadline
        self.keep(reply)
        for call in reply.tool_calls:
            try:
                async with self._deadline.timeout():
                    result = await self._result(call)
            except TimeoutError:
                tool = self._responsible(call)
                emit(tool.refuse(call, self.turns, tool.out_of_time).event)
                return Failure("timeout")
            emit(result.event)
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result.content})
        self.tool_turns += 1
        return None

    async def _result(self, call: events.ToolCall) -> ToolResult:
        tool = self._responsible(call)
        if call.name == tool.name:
            return await tool.run(call, self.turns)
        unknown = {"name": one_line(call.name)[:80], "tools": list(self._tools)}
        return tool.refuse(call, self.turns, Note("no_such_tool", unknown))

    def _responsible(self, call: events.ToolCall) -> Tool:
        """The tool that is called; the first tool when there is none of that name."""
        return self._tools.get(call.name) or next(iter(self._tools.values()))

    def _started(self, tool_choice: ToolChoice, schema: Mapping[str, Any] | None) -> events.TurnStarted:
        """The event contains the messages that are new since the last turn; the model's own are in its replies."""
        new = [message for message in self._messages[self._reported :] if message["role"] != "assistant"]
        is_first, self._reported = not self._reported, len(self._messages)
        return events.TurnStarted(
            turn=self.turns,
            tool_choice=tool_choice,
            response_format="json_schema" if schema is not None else "none",
            prompt=tuple(self._prompt_message(message) for message in new),
            prompt_version=self._text.label if is_first else "",
            variables=self._variables if is_first else {},
        )

    def _prompt_message(self, message: Mapping[str, Any]) -> events.PromptMessage:
        has_media = not isinstance(message["content"], str)
        items = tuple(each.item for each in self._media) if has_media else ()
        return events.PromptMessage(message["role"], text_of(message["content"]), items)

    def _request(self, tool_choice: ToolChoice, schema: Mapping[str, Any] | None, seconds: float) -> ChatRequest:
        declared = tuple(tool.declaration for tool in self._tools.values())
        return ChatRequest(
            messages=tuple(self._messages),
            tools=declared if tool_choice != "none" else (),
            tools_off=declared if tool_choice == "none" and self.tool_turns else (),
            force_tool=next(iter(self._tools)) if tool_choice == "forced" else "",
            answer_schema=schema,
            seconds=seconds,
        )

    async def _outcome(self, request: ChatRequest, seconds: float, late: Cause, emit: Emit) -> Reply | Failure:
        """What one request leads to; the failure ``late`` when it takes too long."""
        self._heard = PartialReply("", "")
        try:
            steps = cast("AsyncGenerator[_Step, None]", self._chat.converse(request))
            async with aclosing(steps), asyncio.timeout(seconds):
                async for step in steps:
                    if isinstance(step, Reply):
                        return step
                    if isinstance(step, PartialReply):
                        self._heard = step
                        emit(events.ModelProgress(self.turns, step.text, step.reasoning))
                    else:
                        emit(step)
        except LLMTimeout as error:
            return Failure(late, str(error), error.spent, note=error.note)
        except TimeoutError:
            return Failure(late)
        except LLMError as error:
            is_final = isinstance(error, LLMRefused)
            return Failure("llm_error", str(error), error.spent, is_final, error.status, error.note)
        return Reply(text="")

    def _replied(self, outcome: Reply | Failure, seconds: float) -> events.ModelReplied:
        failure = outcome if isinstance(outcome, Failure) else None
        # A failed call has no answer, but its cost is counted, and what a reader saw it think stays; of one cut
        # off from outside also the beginning of the answer.
        is_cut_off = failure is not None and failure.note is not None and failure.note.code == "turn_cut_off"
        text = self._heard.text if is_cut_off else ""
        reply = (
            Reply(text, usage=outcome.spent, reasoning=self._heard.reasoning)
            if isinstance(outcome, Failure)
            else outcome
        )
        notes = (_note(failure, seconds),) if failure and (failure.note or not failure.words) else reply.notes
        return events.ModelReplied(
            turn=self.turns,
            text=reply.text,
            reasoning=reply.reasoning,
            tool_calls=reply.tool_calls,
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            cost_usd=reply.usage.cost_usd,
            seconds=seconds,
            model=reply.model or self._chat.model,
            finish_reason=reply.finish_reason,
            error=(failure.words or english(notes)) if failure else "",
            provider=reply.provider,
            cached_tokens=reply.usage.cached_tokens,
            reasoning_tokens=reply.usage.reasoning_tokens,
            refusal=reply.refusal,
            status=failure.status if failure else 0,
            notes=notes,
            message=reply.message,
        )

    def _refusal_of_media(self, outcome: Reply | Failure) -> str:
        """The words with which the endpoint refused the media; empty when that is not the cause, or when the text alone
        would not do. An endpoint that was sent media and answered a tool call has accepted them."""
        if isinstance(outcome, Reply) or outcome.cause != "llm_error":
            return ""
        may_be_left_out = self._media and self.tool_turns == 0 and not self._limits.needs_media
        return outcome.words if may_be_left_out and names_media(outcome.words) else ""

    def _judged(self, outcome: Reply | Failure) -> Reply | Failure | None:
        """The outcome; a failure for a reply that cannot be used, None when the model is to be asked again."""
        if isinstance(outcome, Failure) or outcome.tool_calls:
            return outcome
        if outcome.declined:
            return Failure(outcome.declined, outcome.refusal or outcome.text)
        if outcome.text.strip():
            return outcome
        self._empty_replies += 1
        return Failure("empty_response") if self._empty_replies >= self._limits.empty_replies else None


def _note(failure: Failure, seconds: float) -> Note:
    """What the client says of a failure; it says nothing of a turn that was cut off after ``seconds``."""
    return failure.note or Note("turn_late", {"seconds": seconds})


def _assistant_message(reply: Reply) -> Mapping[str, Any]:
    """The reply as it is sent back: unmodified, if the chat says how it came."""
    if reply.message:
        return reply.message
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.tool_calls
    ]
    return {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
