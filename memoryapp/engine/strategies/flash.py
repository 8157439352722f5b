"""The strategy *flash*: a model reads candidate lines, asks for topics, reads them and selects.

When something goes wrong with the model, that is an outcome in the last event. The topics that the model asked to read
are then selected (its interest is worth more than a cosine), or else the nearest by vector. Reranks share nothing.

The first turn forces the tool and requests no format, because some providers refuse both together. Once topics were
read, or when there are none to read, the turn requests the schema of the answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.chat.protocol import Chat, Reply
from memoryapp.engine.conversation import Conversation, Failure, ToolChoice, TurnLimits
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.memory import ReadTopics, TopicContent
from memoryapp.engine.notes import Note, Notes
from memoryapp.engine.parameters import Limits, RerankParameters
from memoryapp.engine.prompts.prompt import ANSWER_NOW, language_of
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA, RERANK, RerankRequest, rerank_text, rerank_variables
from memoryapp.engine.strategies import strategy
from memoryapp.engine.strategies.topics_tool import TopicsTool, joined, named
from memoryapp.engine.text.answers import Pick, answer_in_words, parse_answer
from memoryapp.engine.text.excerpts import best_exchanges, is_usable, verify
from memoryapp.engine.threads import in_thread_if_long

_SHORT_CHARS = 8_000
# Models refer in this way to a file of the running conversation, which has no number in the memory.
_SESSION_FILE = re.compile(r"Artifact:session(?::(\d{1,3}))?")


async def recall(request: strategy.StrategyRequest[RerankParameters], ports: strategy.Ports, emit: Emit) -> RunFinished:
    """The query is rewritten by one model, searched, and selected from by another."""
    search = await ports.search(await ports.enrich(emit))
    emit(search.line)
    request = request.read_as(search.line)
    found = await search.find()
    emit(found.event)
    limits, began = request.parameters.limits(ports.deadline.left), time.perf_counter()
    asked = _rerank_request(request, search.line.enriched, found)
    finished = await rerank(asked, chat=ports.chat, read_topics=ports.read_topics, limits=limits, emit=emit)
    return replace(finished, rerank_seconds=round(time.perf_counter() - began, 6))


def _rerank_request(
    request: strategy.StrategyRequest[RerankParameters], enriched: str, found: strategy.Found
) -> RerankRequest:
    event, background = found.event, request.background
    return RerankRequest(
        query=request.query,
        enriched=enriched,
        candidates=event.shown,
        baseline=found.baseline,
        today=request.today,
        messages=background.messages,
        profile=background.profile,
        recent_topics=background.recent_topics,
        people=tuple(candidate for candidate in event.people if candidate.shown),
        artifacts=tuple(candidate for candidate in event.artifacts if candidate.shown),
        media=request.media,
        inner_circle=background.inner_circle,
        prompts=request.prompts,
        variables=request.variables,
    )


async def rerank(
    request: RerankRequest, *, chat: Chat, read_topics: ReadTopics, limits: Limits, emit: Emit
) -> RunFinished:
    """Emits the events from the first turn on, and returns the last one.

    ``ModelProgress`` in between is the text that the model has sent so far. The totals of ``RunFinished`` stay zero:
    they are summed up over all events of a run. Errors of ``read_topics`` are raised, and KeyError or ValueError for a
    prompt that ``prompts.faults`` would have rejected."""
    if not (request.candidates or request.people or request.artifacts):
        return strategy.fall_back(request, "no_candidates", limits.stand_ins)
    topics = TopicsTool(request.candidates, read_topics, limits)
    conversation = Conversation(
        chat,
        rerank_text(request),
        rerank_variables(request, limits),
        limits=TurnLimits(limits.seconds, limits.turn_seconds),
        tools=(topics.tool,),
        media=request.media,
    )
    while True:
        turn = _Turn.of(request, limits, topics, tool_turns=conversation.tool_turns)
        outcome = await conversation.turn(emit, tool_choice=turn.tool_choice, schema=turn.schema)
        if isinstance(outcome, Failure) or turn.is_last or not outcome.tool_calls:
            return await _finished(request, limits, outcome, topics, turn)
        await topics.take(outcome.tool_calls)
        if late := await conversation.answer_calls(outcome, emit):
            return await _finished(request, limits, late, topics, turn)
        if conversation.tool_turns == limits.max_tool_calls:
            conversation.say(ANSWER_NOW[language_of(request.query, request.language)])


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a turn asks of the model. ``is_last``: the model must answer, because nothing is left to read, or the limit
    of tool calls is reached. ``must_read``: an answer does not count yet, because the model has not asked for any
    candidate; a call of another tool, or of no candidate, does not count as reading."""

    is_last: bool
    must_read: bool
    has_read: bool

    @classmethod
    def of(cls, request: RerankRequest, limits: Limits, topics: TopicsTool, *, tool_turns: int) -> _Turn:
        return cls(
            is_last=tool_turns >= limits.max_tool_calls or not request.candidates,
            must_read=limits.tool_mode == "forced" and bool(request.candidates) and not topics.requested,
            has_read=tool_turns > 0,
        )

    @property
    def tool_choice(self) -> ToolChoice:
        return "none" if self.is_last else "forced" if self.must_read else "auto"

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The schema of the answer; never together with a forced tool, which Gemini refuses."""
        return ANSWER_SCHEMA if self.is_last or (self.has_read and not self.must_read) else None


async def _finished(
    request: RerankRequest, limits: Limits, outcome: Reply | Failure, topics: TopicsTool, last: _Turn
) -> RunFinished:
    """The last event, from the outcome of the conversation's ``last`` turn."""
    trail = strategy.Trail(topics.requested, topics.unknown, tuple(topics.topics))

    cut = outcome.cause == "cut" if isinstance(outcome, Failure) else outcome.is_at_limit

    def fallen(fallback: strategy.Fallback) -> RunFinished:
        return replace(strategy.fall_back(request, fallback, limits.stand_ins, trail), cut=cut)

    if isinstance(outcome, Failure):
        return fallen("parse_error" if outcome.cause == "cut" else outcome.cause)
    if outcome.tool_calls:
        return fallen("max_tool_calls")
    if last.must_read:
        return fallen("protocol_violation")
    notes: Notes = (Note("reply_at_limit"),) if cut else ()
    picks = await in_thread_if_long(parse_answer, outcome.text, size=len(outcome.text))
    if picks is None and not cut:
        picks, notes = answer_in_words(outcome.text), (Note("answer_in_words"),)
    if picks is None:
        return fallen("parse_error")
    choice = _choice(picks, request, limits)
    trail = replace(trail, hallucinated=joined(trail.hallucinated, choice.foreign))
    if choice.all_foreign:
        return fallen("all_hallucinated")
    finished = strategy.chosen(
        request,
        await _selected_topics(choice.topics, request, limits, topics.topics),
        trail,
        people=_selected_items(choice.people, request.people),
        artifacts=_selected_items(choice.artifacts, request.artifacts),
    )
    return replace(finished, notes=(*finished.notes, *notes), cut=cut)


@dataclass(frozen=True, slots=True)
class _Picks:
    """The selected candidates by kind, best first and within the limits; ``foreign`` ids are no candidates.
    ``all_foreign`` is true when ids were given and none of them is a candidate."""

    topics: tuple[Pick, ...]
    people: tuple[Pick, ...]
    artifacts: tuple[Pick, ...]
    foreign: tuple[str, ...]
    all_foreign: bool


def _choice(picks: Sequence[Pick], request: RerankRequest, limits: Limits) -> _Picks:
    """The picks that are candidates, by kind, in the model's order."""
    topics = {candidate.id for candidate in request.candidates}
    given = [replace(pick, id=next(iter(named(pick.id, topics)), pick.id)) for pick in picks]
    read = [replace(pick, id=_session_file(pick.id, request.artifacts)) for pick in given]
    once = list({pick.id: pick for pick in reversed(read)}.values())[::-1]
    people = {candidate.id for candidate in request.people}
    artifacts = {candidate.id for candidate in request.artifacts}
    foreign = tuple(pick.id for pick in once if pick.id not in topics | people | artifacts)
    return _Picks(
        topics=_first(limits.max_topics, once, topics),
        people=_first(limits.max_people, once, people),
        artifacts=_first(limits.max_artifacts, once, artifacts),
        foreign=foreign,
        all_foreign=bool(once) and len(foreign) == len(once),
    )


def _session_file(id: str, artifacts: Iterable[ItemCandidate]) -> str:
    """The artifact that ``Artifact:session`` (the only one) or ``Artifact:session:2`` refers to; any other ``id``
    unchanged."""
    named = _SESSION_FILE.fullmatch(id)
    files = [candidate.id for candidate in artifacts if candidate.in_session]
    if named is None or not (named[1] or len(files) == 1):
        return id
    number = int(named[1] or 1)
    return files[number - 1] if 1 <= number <= len(files) else id


def _first(most: int, picks: Iterable[Pick], candidates: set[str]) -> tuple[Pick, ...]:
    return tuple(pick for pick in picks if pick.id in candidates)[:most]


async def _selected_topics(
    picks: Sequence[Pick], request: RerankRequest, limits: Limits, read: Mapping[str, TopicContent]
) -> tuple[Selected, ...]:
    """The selected topics with their excerpts, located in the topics that were ``read``."""
    candidates = {candidate.id: candidate for candidate in request.candidates}
    selected = []
    for rank, pick in enumerate(picks, start=1):
        candidate, topic = candidates[pick.id], read.get(pick.id)
        excerpt, by = await _excerpt(pick, topic, request.query, limits.excerpt_over_chars)
        selected.append(
            Selected(
                id=pick.id,
                rank=rank,
                reason=pick.reason,
                score=candidate.score,
                vector_rank=candidate.vector_rank,
                excerpt=excerpt,
                excerpt_by=by,
                unread=topic is None,
            )
        )
    return tuple(selected)


def _selected_items(picks: Sequence[Pick], candidates: Sequence[ItemCandidate]) -> tuple[Selected, ...]:
    known = {candidate.id: candidate for candidate in candidates}
    return tuple(
        Selected(pick.id, rank, pick.reason, known[pick.id].score, known[pick.id].vector_rank)
        for rank, pick in enumerate(picks, start=1)
    )


async def _excerpt(
    pick: Pick, topic: TopicContent | None, query: str, over_chars: int
) -> tuple[tuple[Piece, ...], Literal["model", "scorer", ""]]:
    """The model's quotation, verified; for a large topic without a usable quotation, its best exchanges."""
    excerpt: tuple[Piece, ...] = ()
    if pick.excerpt:
        messages = topic.messages if topic else ()
        is_short = topic is None or topic.size_chars + len(str(pick.excerpt)) <= _SHORT_CHARS
        # A topic of 200,000 characters takes longer than other reranks should wait; a short one takes less time than a
        # thread.
        excerpt = (
            verify(pick.excerpt, messages) if is_short else await asyncio.to_thread(verify, pick.excerpt, messages)
        )
    if topic and topic.size_chars > over_chars and not is_usable(excerpt):
        return await asyncio.to_thread(best_exchanges, query, topic.messages), "scorer"
    return excerpt, "model" if excerpt else ""


STRATEGY = strategy.Strategy("flash", recall, RerankParameters, prompts=(RERANK, ENRICH), needs_model=True)
