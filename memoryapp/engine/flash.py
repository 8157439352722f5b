"""The flash reranker: a model reads candidate lines, asks for topics, reads them and chooses.

A rerank is its events. Whatever goes wrong with the model is an outcome in the last of them: the topics
the model asked to read stand in for its choice (its interest is worth more than a cosine), else the
nearest by vector. A turn maps the state to events and the next state; nothing is shared between reranks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from memoryapp.engine.answers import Pick, parse_answer
from memoryapp.engine.budget import Budget
from memoryapp.engine.events import (
    Candidate,
    Event,
    ModelReplied,
    Piece,
    PromptMessage,
    Retried,
    RunFinished,
    Selected,
    SteppedDown,
    ToolCall,
    TopicsRead,
    TurnStarted,
)
from memoryapp.engine.excerpts import best_exchanges, is_usable, verify
from memoryapp.engine.llm import Chat, ChatRequest, LLMError, LLMTimeout, Reply, Usage
from memoryapp.engine.memory import ReadTopics, TopicContent, topic_id
from memoryapp.engine.outcomes import Fallback, Trail, chosen, fall_back
from memoryapp.engine.prompts import (
    ANSWER_NOW,
    ANSWER_SCHEMA,
    TOOL,
    TOOL_NAME,
    RerankRequest,
    flash_messages,
    language_of,
)
from memoryapp.engine.reading import Order, Shelf, load, understand

__all__ = ["Limits", "RerankRequest", "rerank"]

# A provider may answer nothing on a cold start; the second time it is the answer.
_EMPTY_REPLIES = 2
# The client gives up a little before the turn does, so that it says itself whom it waited for and what the
# failed tries cost.
_CLIENTS_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class Limits:
    """``seconds`` bounds the run, ``turn_seconds`` one model call with its retries."""

    max_topics: int = 15
    max_tool_calls: int = 3
    seconds: float = 10.0
    turn_seconds: float = 10.0
    read_chars: int = 200_000
    tool_mode: str = "forced"
    fallback_topics: int = 5
    excerpt_over_chars: int = 25_000

    @property
    def stand_ins(self) -> int:
        """How many topics a fallback takes."""
        return min(self.fallback_topics, self.max_topics)


@dataclass(frozen=True, slots=True)
class _State:
    """Where the conversation stands after a turn. ``told`` messages of it are in the trace already."""

    conversation: tuple[Mapping[str, Any], ...]
    told: int = 0
    turn: int = 1
    tool_turns: int = 0
    empty_replies: int = 0
    requested: tuple[str, ...] = ()
    hallucinated: tuple[str, ...] = ()
    topics: Mapping[str, TopicContent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Run:
    """What stays the same during a rerank, and the time that is left."""

    request: RerankRequest
    chat: Chat
    read_topics: ReadTopics
    limits: Limits
    budget: Budget
    candidates: Mapping[str, Candidate]


@dataclass(frozen=True, slots=True)
class _Failure:
    """No reply: the fallback it leads to and a sentence for people."""

    fallback: Fallback
    error: str
    spent: Usage = Usage()


async def rerank(
    request: RerankRequest, *, chat: Chat, read_topics: ReadTopics, limits: Limits
) -> AsyncIterator[Event]:
    """The events from the first turn to ``RunFinished``, which always comes and comes last.

    The totals of ``RunFinished`` are left at zero: they are a sum over all events of a run. Errors of
    ``read_topics`` are raised.
    """
    if not request.candidates:
        yield fall_back(request, "no_candidates", limits.stand_ins)
        return
    candidates = {candidate.id: candidate for candidate in request.candidates}
    run = _Run(request, chat, read_topics, limits, Budget(limits.seconds), candidates)
    opening = flash_messages(request, max_topics=limits.max_topics, excerpt_over_chars=limits.excerpt_over_chars)
    state: _State | None = _State(tuple(opening))
    while state:
        steps, state = _turn(run, state), None
        async with aclosing(steps):
            async for step in steps:
                if isinstance(step, _State):
                    state = step
                else:
                    yield step


async def _turn(run: _Run, state: _State) -> AsyncGenerator[Event | _State, None]:
    """One model call and what it asked for. Ends with the next state or with ``RunFinished``."""
    if run.budget.left <= 0:
        yield _fallen(run, state, "timeout")
        return
    heard: Reply | _Failure = _Failure("empty_response", "")
    before = run.budget.spent
    yield _turn_started(run, state)
    async with aclosing(_listen(run, state)) as steps:
        async for step in steps:
            if isinstance(step, Reply | _Failure):
                heard = step
            else:
                yield step
    yield _replied(run, state, heard, run.budget.spent - before)
    if isinstance(heard, _Failure):
        yield _fallen(run, state, heard.fallback)
    elif not heard.tool_calls:
        yield await _settled(run, state, heard)
    elif _is_last(run, state):
        yield _fallen(run, state, "max_tool_calls")
    else:
        async with aclosing(_read(run, state, heard)) as reading:
            async for read in reading:
                yield read


def _is_last(run: _Run, state: _State) -> bool:
    """Whether this turn must be the answer: what was loaded last would be lost without it."""
    return state.tool_turns >= run.limits.max_tool_calls


def _is_forced(run: _Run, state: _State) -> bool:
    return state.tool_turns == 0 and run.limits.tool_mode == "forced" and not _is_last(run, state)


def _turn_started(run: _Run, state: _State) -> TurnStarted:
    return TurnStarted(
        turn=state.turn,
        tool_choice="none" if _is_last(run, state) else "forced" if _is_forced(run, state) else "auto",
        response_format="json_schema" if state.tool_turns else "none",
        prompt=tuple(
            PromptMessage(message["role"], message["content"])
            for message in state.conversation[state.told :]
            if message["role"] != "assistant"
        ),
    )


def _chat_request(run: _Run, state: _State, seconds: float) -> ChatRequest:
    # No format before the first tool result: Gemini refuses it together with a forced tool.
    return ChatRequest(
        messages=state.conversation,
        tools=() if _is_last(run, state) else (TOOL,),
        tools_off=(TOOL,) if _is_last(run, state) else (),
        force_tool=TOOL_NAME if _is_forced(run, state) else "",
        answer_schema=ANSWER_SCHEMA if state.tool_turns else None,
        seconds=seconds,
    )


async def _listen(run: _Run, state: _State) -> AsyncGenerator[Retried | SteppedDown | Reply | _Failure, None]:
    """What the chat yields, ending with a reply or the reason why there is none."""
    late: Fallback = "timeout" if run.budget.left <= run.limits.turn_seconds else "turn_timeout"
    turn = Budget(min(run.budget.left, run.limits.turn_seconds))
    chat = cast(
        "AsyncGenerator[Retried | SteppedDown | Reply, None]",
        run.chat.converse(_chat_request(run, state, turn.left * _CLIENTS_SHARE)),
    )
    async with aclosing(chat):
        step: Retried | SteppedDown | Reply | _Failure | None = None
        while not isinstance(step, Reply | _Failure):
            step = await _next(chat, turn, late)
            if isinstance(step, Reply | _Failure):
                run.budget.charge(turn.spent)
            yield step


async def _next(
    chat: AsyncIterator[Retried | SteppedDown | Reply], turn: Budget, late: Fallback
) -> Retried | SteppedDown | Reply | _Failure:
    try:
        async with turn.spending():
            return await anext(chat)
    except StopAsyncIteration:
        return Reply(text="")
    except LLMTimeout as error:
        return _Failure(late, str(error), error.spent)
    except TimeoutError:
        return _Failure(late, f"No answer within {turn.spent:.1f} s.")
    except LLMError as error:
        return _Failure("llm_error", str(error), error.spent)


def _replied(run: _Run, state: _State, heard: Reply | _Failure, seconds: float) -> ModelReplied:
    if isinstance(heard, _Failure):
        reply, spent, error = Reply(text="", model=run.chat.model), heard.spent, heard.error
    else:
        reply, error = heard, ""
        spent = Usage(heard.input_tokens, heard.output_tokens, heard.cost_usd)
    return ModelReplied(
        turn=state.turn,
        text=reply.text,
        reasoning=reply.reasoning,
        tool_calls=reply.tool_calls,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_usd,
        seconds=seconds,
        model=reply.model or run.chat.model,
        finish_reason=reply.finish_reason,
        error=error,
    )


async def _read(run: _Run, state: _State, reply: Reply) -> AsyncGenerator[TopicsRead | _State | RunFinished, None]:
    """Answer each tool call of a reply once. Ends with the next state, or late with ``RunFinished``."""
    calls = {call.id: call for call in reversed(reply.tool_calls)}
    orders = [understand(calls[id], run.candidates) for id in dict.fromkeys(call.id for call in reply.tool_calls)]
    state = replace(
        state,
        requested=_joined(state.requested, *(o.wanted for o in orders)),
        hallucinated=_joined(state.hallucinated, *(o.unknown for o in orders)),
        told=len(state.conversation),
        conversation=(*state.conversation, _assistant_message(reply)),
    )
    room = run.limits.read_chars
    for asked in orders:
        try:
            async with run.budget.spending():
                loaded = await load(asked, _shelf(run, room), turn=state.turn, already=state.topics)
        except TimeoutError:
            loaded = None
        if loaded is None:
            yield _unread(asked, state.turn)
            yield _fallen(run, state, "timeout")
            return
        yield loaded.event
        room -= loaded.event.size_chars
        answer = {"role": "tool", "tool_call_id": asked.call.id, "content": loaded.content}
        state = replace(
            state,
            conversation=(*state.conversation, answer),
            topics={**state.topics, **{topic_id(topic.id): topic for topic in loaded.topics}},
        )
    yield _after_tools(run, state)


def _after_tools(run: _Run, state: _State) -> _State:
    state = replace(state, turn=state.turn + 1, tool_turns=state.tool_turns + 1)
    if not _is_last(run, state):
        return state
    now = {"role": "user", "content": ANSWER_NOW[language_of(run.request)]}
    return replace(state, conversation=(*state.conversation, now))


def _shelf(run: _Run, room: int) -> Shelf:
    return Shelf(run.candidates, run.read_topics, max(room, 0), run.limits.read_chars, run.limits.excerpt_over_chars)


def _unread(asked: Order, turn: int) -> TopicsRead:
    note = "The topics could not be loaded in the time that was left."
    return TopicsRead(turn, asked.call.id, (), (), asked.unknown, 0, note)


def _assistant_message(reply: Reply) -> Mapping[str, Any]:
    if reply.message:
        return reply.message
    return {"role": "assistant", "content": reply.text, "tool_calls": [_openai_call(c) for c in reply.tool_calls]}


def _openai_call(call: ToolCall) -> Mapping[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


async def _settled(run: _Run, state: _State, reply: Reply) -> _State | RunFinished:
    """What a reply without tool calls comes to."""
    if not reply.text.strip():
        state = replace(state, turn=state.turn + 1, told=len(state.conversation), empty_replies=state.empty_replies + 1)
        return state if state.empty_replies < _EMPTY_REPLIES else _fallen(run, state, "empty_response")
    if _is_forced(run, state):
        return _fallen(run, state, "protocol_violation")
    picks = parse_answer(reply.text)
    if picks is None:
        return _fallen(run, state, "parse_error")
    state = replace(
        state, hallucinated=_joined(state.hallucinated, (p.id for p in picks if p.id not in run.candidates))
    )
    known = [pick for pick in picks if pick.id in run.candidates]
    if picks and not known:
        return _fallen(run, state, "all_hallucinated")
    selected = [
        await _selected(run, state, pick, rank) for rank, pick in enumerate(known[: run.limits.max_topics], start=1)
    ]
    return chosen(run.request, selected, _trail(state))


async def _selected(run: _Run, state: _State, pick: Pick, rank: int) -> Selected:
    candidate = run.candidates[pick.id]
    excerpt, by = await _excerpt(run, pick, state.topics.get(pick.id))
    return Selected(
        id=pick.id,
        rank=rank,
        reason=pick.reason,
        score=candidate.score,
        vector_rank=candidate.vector_rank,
        excerpt=excerpt,
        excerpt_by=by,
    )


async def _excerpt(
    run: _Run, pick: Pick, topic: TopicContent | None
) -> tuple[tuple[Piece, ...], Literal["model", "scorer", ""]]:
    """What the model quoted, verified; for a large topic without a usable quotation the best exchanges."""
    # In threads: a topic of 200,000 characters takes longer than other reranks should wait.
    excerpt: tuple[Piece, ...] = ()
    if pick.excerpt:
        excerpt = await asyncio.to_thread(verify, pick.excerpt, topic.messages if topic else ())
    if topic and topic.size_chars > run.limits.excerpt_over_chars and not is_usable(excerpt):
        return await asyncio.to_thread(best_exchanges, run.request.query, topic.messages), "scorer"
    return excerpt, "model" if excerpt else ""


def _fallen(run: _Run, state: _State, fallback: Fallback) -> RunFinished:
    return fall_back(run.request, fallback, run.limits.stand_ins, _trail(state))


def _trail(state: _State) -> Trail:
    return Trail(state.requested, state.hallucinated, tuple(state.topics))


def _joined(*groups: Iterable[str]) -> tuple[str, ...]:
    """All ids in order, without repeats."""
    return tuple(dict.fromkeys(id for group in groups for id in group))
