"""A chat model that follows a script, what a rerank needs around it, and functions that read its events."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar, cast

from memoryapp.engine.budget import Usage
from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, PartialReply, Reply
from memoryapp.engine.events import Event, Retried, RunFinished, SteppedDown, ToolCall
from memoryapp.engine.memory import MessageContent, TopicContent
from memoryapp.engine.parameters import Limits
from memoryapp.engine.prompts.prompt import rendered
from memoryapp.engine.prompts.rerank import TOOL_NAME, RerankRequest, rerank_text, rerank_variables
from memoryapp.engine.strategies.flash import rerank
from memoryapp.engine.text.lines import artifact_line, candidate_line, person_line
from tests.support.clock import passes

T = TypeVar("T")
NOON = datetime(2025, 7, 25, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Step:
    """One turn of the script: what is yielded before its end, then a reply or an error, after a wait."""

    outcome: Reply | LLMError
    before: tuple[Retried | SteppedDown | PartialReply, ...] = ()
    seconds: float = 0.0


class ScriptedChat:
    """Plays one step for each turn and keeps the requests it received."""

    model = "scripted"

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[ChatRequest] = []

    async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | PartialReply | Reply]:
        self.requests.append(request)
        step = self._steps.pop(0)
        for event in step.before:
            yield event
        if step.seconds:
            await passes(step.seconds)
        if isinstance(step.outcome, LLMError):
            raise step.outcome
        yield step.outcome


def says(text: str) -> Step:
    """The model writes ``text``."""
    return Step(Reply(text=text, message={"role": "assistant", "content": text}, usage=Usage(100, 10)))


def limited(text: str) -> Step:
    """The model writes ``text`` and reaches its limit of tokens."""
    step = says(text)
    return replace(step, outcome=replace(step.outcome, finish_reason="length"))


def calls(*tool_calls: ToolCall, **extra: Any) -> Step:
    """The model calls tools; ``extra`` goes into the assistant message."""
    written = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in tool_calls
    ]
    message = {"role": "assistant", "content": None, "tool_calls": written, **extra}
    return Step(Reply(text="", tool_calls=tool_calls, message=message, usage=Usage(100, 10)))


def asks(*ids: int | str, call: str = "call_1") -> Step:
    """The model asks to read topics."""
    return calls(ToolCall(call, TOOL_NAME, json.dumps({"ids": ids})))


def chooses(*ids: int) -> Step:
    """The model answers with topics, each with a reason."""
    return says(json.dumps({"topics": [{"id": f"Topic:{id}", "reason": f"about {id}", "excerpt": ""} for id in ids]}))


def fails(error: LLMError) -> Step:
    return Step(error)


def slow(step: Step, seconds: float = 600.0) -> Step:
    """The same step, after ``seconds`` of the loop's clock; the default is longer than any limit of a test."""
    return replace(step, seconds=seconds)


def after(step: Step, *events: Retried | SteppedDown | PartialReply) -> Step:
    """The same step, after yielding ``events``."""
    return replace(step, before=events)


async def emitted(stage: Callable[..., Awaitable[object]], *given: Any, **named: Any) -> list[Any]:
    """Everything that a stage emits, and last what it returns."""
    events: list[Any] = []
    returned = await stage(*given, **named, emit=events.append)
    return [*events, returned]


async def collect(stream: AsyncIterator[T]) -> list[T]:
    return [item async for item in stream]


def message(id: int, text: str, role: str = "user", **fields: Any) -> MessageContent:
    values: dict[str, Any] = {"author": "", "sent_at": NOON + timedelta(minutes=id), **fields}
    return MessageContent(id=id, role=role, text=text, **values)


def topic(id: int, *messages: MessageContent, summary: str = "", size_chars: int | None = None) -> TopicContent:
    talk = messages or (message(id * 10, f"question {id}"), message(id * 10 + 1, f"answer {id}", "assistant"))
    size = sum(len(m.text) for m in talk) if size_chars is None else size_chars
    return TopicContent(id, summary or f"summary {id}", talk[0].sent_at, size, tuple(talk))


def candidate(id: int, rank: int, size_chars: int = 100, vector_rank: int | None = None) -> Candidate:
    score = round(0.9 - rank / 100, 4)
    line = candidate_line(f"Topic:{id}", score, "2025-07-25", 2, size_chars, f"summary {id}")
    return Candidate(
        id=f"Topic:{id}",
        rank=rank,
        vector_rank=vector_rank or rank,
        cosine=score,
        bm25=1.0,
        fused=1.0,
        score=score,
        date="2025-07-25",
        message_count=2,
        size_chars=size_chars,
        summary=f"summary {id}",
        line=line,
        shown=True,
    )


def person(id: int, name: str, bio: str = "", **fields: Any) -> ItemCandidate:
    values = {"username": "", "aliases": (), "circle": "Friends", "mention_count": 3, **fields}
    line = person_line(f"Person:{id}", 0.6, name, bio=bio, **values)
    return item(f"Person:{id}", name, line)


def artifact(id: int, name: str, summary: str = "", in_session: bool = False, **fields: Any) -> ItemCandidate:
    values = {"file_type": "pdf", "keywords": (), "entities": (), "rag_hints": (), **fields}
    line = artifact_line(f"Artifact:{id}", 0.6, name=name, summary=summary, in_session=in_session, **values)
    return item(f"Artifact:{id}", name, line, in_session=in_session)


def item(id: str, name: str, line: str, in_session: bool = False) -> ItemCandidate:
    return ItemCandidate(id, 1, 2, 0.5, 1.0, 3.0, 0.6, name, line, True, in_session)


def opening(asked: RerankRequest) -> list[dict[str, Any]]:
    """Returns the messages that begin a rerank."""
    return rendered(rerank_text(asked), rerank_variables(asked))


def request(*ids: int, query: str = "what was it?", **fields: Any) -> RerankRequest:
    """Returns a request over candidates ``ids``; the plain vector order is the same order reversed."""
    candidates = tuple(candidate(id, rank, vector_rank=len(ids) + 1 - rank) for rank, id in enumerate(ids, start=1))
    values: dict[str, Any] = {
        "enriched": query,
        "candidates": candidates,
        "baseline": tuple(f"Topic:{id}" for id in reversed(ids)),
        "today": date(2025, 8, 1),
        **fields,
    }
    return RerankRequest(query=query, **values)


def topic_reader(*topics: TopicContent) -> Callable[[Sequence[int]], Any]:
    """Returns ``read_topics`` over given topics; any other number has a small topic of its own."""
    stored = {t.id: t for t in topics}

    async def read_topics(numbers: Sequence[int]) -> Sequence[TopicContent]:
        return [stored.get(number) or topic(number) for number in numbers]

    return read_topics


# A rerank by a scripted model, and functions that read its events.


async def run(*steps: Step, ids: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7), **limits: Any) -> list[Event]:
    chat = ScriptedChat(*steps)
    return await emitted(rerank, request(*ids), chat=chat, read_topics=topic_reader(), limits=Limits(**limits))


def end(events: list[Event]) -> RunFinished:
    assert [isinstance(event, RunFinished) for event in events] == [False] * (len(events) - 1) + [True]
    return cast(RunFinished, events[-1])


def ids(finished: RunFinished) -> list[str]:
    return [topic.id for topic in finished.selected]


def of(kind: type, events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


VECTOR_TOP = ["Topic:7", "Topic:6", "Topic:5", "Topic:4", "Topic:3"]
