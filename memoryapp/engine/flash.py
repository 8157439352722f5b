"""The flash reranker: a model reads candidate lines, asks for topics, reads them and chooses.

A rerank is its events. Whatever goes wrong with the model is an outcome in the last of them: the topics
the model asked to read stand in for its choice (its interest is worth more than a cosine), else the
nearest by vector. A turn maps the state to events and the next state; nothing is shared between reranks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

from memoryapp.engine.answers import parse_answer
from memoryapp.engine.budget import Budget
from memoryapp.engine.choice import selected_items, selected_topics, sort_out
from memoryapp.engine.events import (
    Event,
    ModelProgress,
    ModelReplied,
    Retried,
    RunFinished,
    SteppedDown,
    ToolCall,
    TopicsRead,
)
from memoryapp.engine.limits import Limits
from memoryapp.engine.llm import Chat, LLMError, LLMTimeout, Progress, Reply, Usage
from memoryapp.engine.media import names_media
from memoryapp.engine.memory import ReadTopics, topic_id
from memoryapp.engine.outcomes import Fallback, chosen, fall_back
from memoryapp.engine.prompts import RerankRequest
from memoryapp.engine.reading import Order, Shelf, load, understand
from memoryapp.engine.threads import apart
from memoryapp.engine.turns import (
    Run,
    State,
    after_silence,
    after_tools,
    begin,
    chat_request,
    is_last,
    joined,
    must_read,
    opening,
    turn_started,
)

__all__ = ["Limits", "RerankRequest", "rerank"]

# A provider may answer nothing on a cold start; the second time it is the answer.
_EMPTY_REPLIES = 2
# The client gives up a little before the turn does, so that it says itself whom it waited for and what the
# failed tries cost.
_CLIENTS_SHARE = 0.97
_Told = Retried | SteppedDown | ModelProgress


@dataclass(frozen=True, slots=True)
class _Failure:
    """No reply: the fallback it leads to and a sentence for people."""

    fallback: Fallback
    error: str
    spent: Usage = Usage()


async def rerank(
    request: RerankRequest, *, chat: Chat, read_topics: ReadTopics, limits: Limits
) -> AsyncIterator[Event | ModelProgress]:
    """The events from the first turn to ``RunFinished``, which always comes and comes last.

    ``ModelProgress`` in between is what a model has said so far. The totals of ``RunFinished`` are left at zero:
    they are a sum over all events of a run. Errors of ``read_topics`` are raised, and KeyError or ValueError for
    a prompt that ``prompts.faults`` would have named.
    """
    if not (request.candidates or request.people or request.artifacts):
        yield fall_back(request, "no_candidates", limits.stand_ins)
        return
    run = begin(request, chat, read_topics, limits)
    state: State | None = opening(run, request.media)
    while state:
        steps, state = _turn(run, state), None
        async with aclosing(steps):
            async for step in steps:
                if isinstance(step, State):
                    state = step
                else:
                    yield step


async def _turn(run: Run, state: State) -> AsyncGenerator[Event | ModelProgress | State, None]:
    """One model call and what it asked for. Ends with the next state or with ``RunFinished``."""
    if run.budget.left <= 0:
        yield _fallen(run, state, "timeout")
        return
    heard: Reply | _Failure = _Failure("empty_response", "")
    before = run.budget.spent
    yield turn_started(run, state)
    async with aclosing(_listen(run, state)) as steps:
        async for step in steps:
            if isinstance(step, Reply | _Failure):
                heard = step
            else:
                yield step
    yield _replied(run, state, heard, run.budget.spent - before)
    async with aclosing(_outcome(run, state, heard)) as outcome:
        async for what in outcome:
            yield what


async def _outcome(
    run: Run, state: State, heard: Reply | _Failure
) -> AsyncGenerator[SteppedDown | TopicsRead | State | RunFinished, None]:
    """What a turn comes to."""
    if isinstance(heard, _Failure):
        if _is_about_media(heard, state):
            yield SteppedDown("media", "the text alone", heard.error)
            yield opening(run, (), turn=state.turn + 1)
        else:
            yield _fallen(run, state, heard.fallback)
    elif not heard.tool_calls:
        yield await _settled(run, state, heard)
    elif is_last(run, state):
        yield _fallen(run, state, "max_tool_calls")
    else:
        async with aclosing(_read(run, state, heard)) as reading:
            async for read in reading:
                yield read


def _is_about_media(failure: _Failure, state: State) -> bool:
    """Whether the endpoint could answer without the media; once topics were read it has taken them before."""
    return (
        bool(state.media) and state.tool_turns == 0 and failure.fallback == "llm_error" and names_media(failure.error)
    )


async def _listen(run: Run, state: State) -> AsyncGenerator[_Told | Reply | _Failure, None]:
    """What the chat yields, ending with a reply or the reason why there is none."""
    late: Fallback = "timeout" if run.budget.left <= run.limits.turn_seconds else "turn_timeout"
    turn = Budget(min(run.budget.left, run.limits.turn_seconds))
    chat = cast(
        "AsyncGenerator[Retried | SteppedDown | Progress | Reply, None]",
        run.chat.converse(chat_request(run, state, turn.left * _CLIENTS_SHARE)),
    )
    async with aclosing(chat):
        step: Retried | SteppedDown | Progress | Reply | _Failure | None = None
        while not isinstance(step, Reply | _Failure):
            step = await _next(chat, turn, late)
            if isinstance(step, Reply | _Failure):
                run.budget.charge(turn.spent)
            yield ModelProgress(state.turn, step.text, step.reasoning) if isinstance(step, Progress) else step


async def _next(
    chat: AsyncIterator[Retried | SteppedDown | Progress | Reply], turn: Budget, late: Fallback
) -> Retried | SteppedDown | Progress | Reply | _Failure:
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


def _replied(run: Run, state: State, heard: Reply | _Failure, seconds: float) -> ModelReplied:
    error = heard.error if isinstance(heard, _Failure) else ""
    reply = _silent(run, heard) if isinstance(heard, _Failure) else heard
    return ModelReplied(
        turn=state.turn,
        text=reply.text,
        reasoning=reply.reasoning,
        tool_calls=reply.tool_calls,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cost_usd=reply.cost_usd,
        seconds=seconds,
        model=reply.model or run.chat.model,
        finish_reason=reply.finish_reason,
        error=error,
        provider=reply.provider,
        cached_tokens=reply.cached_tokens,
        reasoning_tokens=reply.reasoning_tokens,
        refusal=reply.refusal,
    )


def _silent(run: Run, failure: _Failure) -> Reply:
    """A failure as a reply that says nothing and still cost what it cost."""
    spent = failure.spent
    return Reply(
        text="",
        model=run.chat.model,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_usd,
        cached_tokens=spent.cached_tokens,
        reasoning_tokens=spent.reasoning_tokens,
    )


async def _read(run: Run, state: State, reply: Reply) -> AsyncGenerator[TopicsRead | State | RunFinished, None]:
    """Answer each tool call of a reply once. Ends with the next state, or late with ``RunFinished``."""
    orders = [await apart(understand, call, run.candidates, size=len(call.arguments)) for call in reply.tool_calls]
    state = replace(
        state,
        requested=joined(state.requested, *(o.wanted for o in orders)),
        hallucinated=joined(state.hallucinated, *(o.unknown for o in orders)),
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
    yield after_tools(run, state)


def _shelf(run: Run, room: int) -> Shelf:
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


async def _settled(run: Run, state: State, reply: Reply) -> State | RunFinished:
    """What a reply without tool calls comes to."""
    if reply.declined:
        return _fallen(run, state, reply.declined)
    if not reply.text.strip():
        state = after_silence(state)
        return state if state.empty_replies < _EMPTY_REPLIES else _fallen(run, state, "empty_response")
    if must_read(run, state):
        return _fallen(run, state, "protocol_violation")
    picks = await apart(parse_answer, reply.text, size=len(reply.text))
    if picks is None:
        return _fallen(run, state, "parse_error")
    choice = sort_out(picks, run.request, run.limits)
    state = replace(state, hallucinated=joined(state.hallucinated, choice.foreign))
    if choice.all_foreign:
        return _fallen(run, state, "all_hallucinated")
    return chosen(
        run.request,
        await selected_topics(choice.topics, run.request, run.limits, state.topics),
        state.trail,
        people=selected_items(choice.people, run.request.people),
        artifacts=selected_items(choice.artifacts, run.request.artifacts),
    )


def _fallen(run: Run, state: State, fallback: Fallback) -> RunFinished:
    return fall_back(run.request, fallback, run.limits.stand_ins, state.trail)
