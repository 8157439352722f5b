"""What a connected endpoint can do: eight small questions, asked at once, each with what it refused in its own words. A
question is asked as a run would ask it, by a client that has learnt nothing yet: so a finding says what works, and what
a run does instead. All of it is bounded in time, and nothing is remembered."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from memoryapp.engine.chat.protocol import Chat, ChatRequest, LLMError, PartialReply, Reply
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.notes import Notes
from memoryapp.engine.text.answers import TEXT, decoded, fulfils, object_schema

Question = Literal["forced_call", "free_call", "schema", "streaming", "reasoning", "usage", "images", "embeddings"]
# Local models may load for a while before the first answer.
_FIRST_SECONDS = 20.0
_SECONDS = 20.0
_TOOL_NAME = "look_up_city"
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": _TOOL_NAME,
        "description": "Looks up facts about a city.",
        "parameters": object_schema(city=TEXT),
    },
}
_SCHEMA = object_schema(city=TEXT, country=TEXT)
# A red square of 64 pixels.
_PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAT0lEQVR42u3PQQkAAAgEsItw/dMZxQi+hcEKLNO+"
    "FgEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGBywLQTQDx3uY1cQAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """What was found about one question. ``can`` is ``instead`` where a run gets what it needs in another way:
    ``steps`` and ``notes`` say how. ``error`` are the words of a failure, ``detail`` is what came."""

    question: Question
    can: Literal["yes", "instead", "no"]
    seconds: float
    steps: tuple[SteppedDown, ...] = ()
    notes: Notes = ()
    error: str = ""
    detail: str = ""


@dataclass(slots=True)
class _Asked:
    """What one request led to."""

    reply: Reply | None = None
    error: LLMError | None = None
    steps: list[SteppedDown] = field(default_factory=list)
    parts: int = 0
    seconds: float = 0.0


async def chat_findings(chat_of: Callable[[bool], Chat]) -> list[TrialFinding]:
    """The findings about a chat endpoint. ``chat_of(stream)`` makes a client that has learnt nothing. Raises LLMError
    when the endpoint answers nothing at all."""
    first = await _ask(chat_of(False), _says("Say hello in one word.", seconds=_FIRST_SECONDS))
    if first.error:
        raise first.error
    picture = [
        {"type": "text", "text": "Which colour is this square? One word."},
        {"type": "image_url", "image_url": {"url": _PICTURE}},
    ]
    city = "Look up the city of Tbilisi with the tool."
    forced, free, schema, streamed, pictured = await asyncio.gather(
        _ask(chat_of(False), _says(city, tools=(_TOOL,), force_tool=_TOOL_NAME)),
        _ask(chat_of(False), _says(city, tools=(_TOOL,))),
        _ask(chat_of(False), _says("In which country is Tbilisi? Answer with JSON.", answer_schema=_SCHEMA)),
        _ask(chat_of(True), _says("Which is larger, 17 * 23 or 20 * 20? Explain it in two sentences.")),
        _ask(chat_of(False), ChatRequest(({"role": "user", "content": picture},), seconds=_SECONDS)),
    )
    thought = streamed.reply
    has_thought = bool(thought and (thought.reasoning or thought.usage.reasoning_tokens))
    return [
        _found("forced_call", forced, bool(forced.reply and forced.reply.tool_calls)),
        _found("free_call", free, bool(free.reply and free.reply.tool_calls)),
        _found("schema", schema, bool(schema.reply and fulfils(decoded(schema.reply.text), _SCHEMA))),
        _found("streaming", streamed, bool(streamed.reply and streamed.parts), about="streaming"),
        _found("reasoning", streamed, has_thought, about="reasoning effort"),
        _counted(streamed),
        _found("images", pictured, bool(pictured.reply and pictured.reply.text.strip())),
    ]


async def embedding_finding(embedder: Embedder) -> TrialFinding:
    began = time.monotonic()
    try:
        vectors = await asyncio.wait_for(embedder.embed(["Where is the key?", "Under the mat."]), _SECONDS)
    except EmbeddingError as error:
        return TrialFinding("embeddings", "no", time.monotonic() - began, error=str(error))
    except TimeoutError:
        return TrialFinding("embeddings", "no", time.monotonic() - began, error=f"No answer within {_SECONDS:.0f} s.")
    return TrialFinding("embeddings", "yes", time.monotonic() - began, detail=f"{vectors.shape[1]}")


def _says(text: str, *, seconds: float = _SECONDS, **wishes: Any) -> ChatRequest:
    system = {"role": "system", "content": "You are tested. Be brief."}
    return ChatRequest((system, {"role": "user", "content": text}), seconds=seconds, **wishes)


async def _ask(chat: Chat, request: ChatRequest) -> _Asked:
    answer, began = _Asked(), time.monotonic()
    try:
        async with aclosing(cast(Any, chat.converse(request))) as steps:
            async for step in steps:
                if isinstance(step, Reply):
                    answer.reply = step
                elif isinstance(step, SteppedDown):
                    answer.steps.append(step)
                answer.parts += isinstance(step, PartialReply)
    except LLMError as error:
        answer.error = error
    answer.seconds = time.monotonic() - began
    return answer


def _found(question: Question, answer: _Asked, worked: bool, about: str = "") -> TrialFinding:
    steps = tuple(step for step in answer.steps if not about or step.capability == about)
    notes = answer.reply.notes if answer.reply and not about else ()
    can: Literal["yes", "instead", "no"] = "no" if not worked else "instead" if steps or notes else "yes"
    return TrialFinding(question, can, answer.seconds, steps, notes, str(answer.error or ""))


def _counted(answer: _Asked) -> TrialFinding:
    usage = answer.reply.usage if answer.reply else None
    counted = bool(usage and usage.input_tokens and usage.output_tokens)
    found = _found("usage", answer, counted, about="usage")
    if not (usage and counted):
        return found
    return TrialFinding("usage", "yes", answer.seconds, detail=f"{usage.input_tokens} + {usage.output_tokens}")
