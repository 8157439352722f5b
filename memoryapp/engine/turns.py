"""A rerank between two turns: what the next turn is asked, and what the trace says of it.

A ``State`` is never changed, only replaced: the conversation so far, what was asked for and read. Turn 1 forces
the tool and asks for no format, because some providers refuse both together; once topics were read, or where
there are none to read, the answer's schema is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memoryapp.engine.budget import Budget
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import PromptMessage, TurnStarted
from memoryapp.engine.limits import Limits
from memoryapp.engine.llm import Chat, ChatRequest
from memoryapp.engine.media import Media, text_of, with_media
from memoryapp.engine.memory import ReadTopics, TopicContent
from memoryapp.engine.outcomes import Trail
from memoryapp.engine.prompts import (
    ANSWER_NOW,
    ANSWER_SCHEMA,
    TOOL,
    TOOL_NAME,
    PromptText,
    RerankRequest,
    language_of,
    rendered,
    rerank_text,
    rerank_variables,
)


@dataclass(frozen=True, slots=True)
class State:
    """Where the conversation stands after a turn. ``told`` messages of it are in the trace already.

    ``media`` stand in the opening; they are gone from it once an endpoint refused them.
    """

    conversation: tuple[Mapping[str, Any], ...]
    media: tuple[Media, ...] = ()
    told: int = 0
    turn: int = 1
    tool_turns: int = 0
    empty_replies: int = 0
    requested: tuple[str, ...] = ()
    hallucinated: tuple[str, ...] = ()
    topics: Mapping[str, TopicContent] = field(default_factory=dict)

    @property
    def trail(self) -> Trail:
        return Trail(self.requested, self.hallucinated, tuple(self.topics))


@dataclass(frozen=True, slots=True)
class Run:
    """What stays the same during a rerank, and the time that is left."""

    request: RerankRequest
    chat: Chat
    read_topics: ReadTopics
    limits: Limits
    budget: Budget
    text: PromptText
    variables: Mapping[str, str]
    candidates: Mapping[str, Candidate]


def begin(request: RerankRequest, chat: Chat, read_topics: ReadTopics, limits: Limits) -> Run:
    return Run(
        request=request,
        chat=chat,
        read_topics=read_topics,
        limits=limits,
        budget=Budget(limits.seconds),
        text=rerank_text(request),
        variables=rerank_variables(request, limits),
        candidates={candidate.id: candidate for candidate in request.candidates},
    )


def opening(run: Run, media: tuple[Media, ...], turn: int = 1) -> State:
    """The state before the model has said anything."""
    system, user = rendered(run.text, run.variables)
    return State((system, with_media(user, media)), media, turn=turn)


def is_last(run: Run, state: State) -> bool:
    """Whether this turn must be the answer: nothing is left to read, or what was read would be lost without it."""
    return state.tool_turns >= run.limits.max_tool_calls or not run.candidates


def must_read(run: Run, state: State) -> bool:
    """Whether an answer would not count yet: a call of another tool, or of no candidate, reads nothing."""
    return run.limits.tool_mode == "forced" and bool(run.candidates) and not state.requested


def is_forced(run: Run, state: State) -> bool:
    return must_read(run, state) and not is_last(run, state)


def wants_answer(run: Run, state: State) -> bool:
    """Whether the answer's format is asked for: never together with a forced tool, which Gemini refuses."""
    return is_last(run, state) or (state.tool_turns > 0 and not is_forced(run, state))


def turn_started(run: Run, state: State) -> TurnStarted:
    return TurnStarted(
        turn=state.turn,
        tool_choice="none" if is_last(run, state) else "forced" if is_forced(run, state) else "auto",
        response_format="json_schema" if wants_answer(run, state) else "none",
        prompt=tuple(
            _prompt_message(message, state) for message in state.conversation[state.told :] if _is_told(message)
        ),
        prompt_version="" if state.told else run.text.label,
        variables={} if state.told else run.variables,
    )


def _is_told(message: Mapping[str, Any]) -> bool:
    """The assistant's own messages are in the trace as its replies."""
    return bool(message["role"] != "assistant")


def _prompt_message(message: Mapping[str, Any], state: State) -> PromptMessage:
    has_media = not isinstance(message["content"], str)
    return PromptMessage(
        message["role"], text_of(message["content"]), tuple(m.item for m in state.media) if has_media else ()
    )


def chat_request(run: Run, state: State, seconds: float) -> ChatRequest:
    may_call = not is_last(run, state)
    return ChatRequest(
        messages=state.conversation,
        tools=(TOOL,) if may_call else (),
        tools_off=(TOOL,) if state.tool_turns and not may_call else (),
        force_tool=TOOL_NAME if is_forced(run, state) else "",
        answer_schema=ANSWER_SCHEMA if wants_answer(run, state) else None,
        seconds=seconds,
    )


def after_tools(run: Run, state: State) -> State:
    """The next turn, which is told when it must be the answer."""
    state = replace(state, turn=state.turn + 1, tool_turns=state.tool_turns + 1)
    if not is_last(run, state):
        return state
    now = {"role": "user", "content": ANSWER_NOW[language_of(run.request.query, run.request.language)]}
    return replace(state, conversation=(*state.conversation, now))


def after_silence(state: State) -> State:
    """The same question once more."""
    return replace(state, turn=state.turn + 1, told=len(state.conversation), empty_replies=state.empty_replies + 1)


def joined(*groups: Iterable[str]) -> tuple[str, ...]:
    """All ids in order, without repeats."""
    return tuple(dict.fromkeys(id for group in groups for id in group))
