"""From a query to a selection and its context: enrich, search, choose, assemble. Every stage is events.

``recall`` is one async generator over all stages; the strategies are generators of their own that end with
``RunFinished``. No connection is held while a model thinks: each look at the database borrows one. A run that tries
another one again takes what came before the prompt it tries as it was, so that only the prompt differs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import date
from typing import cast
from uuid import UUID

from django.conf import settings

from memoryapp import reading, retrieval
from memoryapp.clients import Clients
from memoryapp.database import Asked
from memoryapp.engine import flash
from memoryapp.engine.budget import Budget
from memoryapp.engine.context import WHOLE_TOPIC_CHARS, Told, assembled, topics_text
from memoryapp.engine.enricher import enrich
from memoryapp.engine.events import (
    CandidatesFound,
    ContextPart,
    Event,
    ModelProgress,
    QueryEnriched,
    Retried,
    RunFinished,
    RunStarted,
    Selected,
    SteppedDown,
    summarise,
)
from memoryapp.engine.limits import Limits
from memoryapp.engine.media import Media
from memoryapp.engine.memory import MessageContent, TopicContent, parse_item_id, topic_id
from memoryapp.engine.prompts import PromptBook, language_of
from memoryapp.parameters import RANKED, Parameters
from memoryapp.reading import Background
from memoryapp.signals import Question, Wording
from memoryapp.trials import Replayed
from memoryapp.wording import Worded, worded

VECTOR_TOPICS = 5
LATE_SEARCH = "The time for the whole run was over before search had found anything; nothing was chosen."
# Of a run's seconds: what the enricher may take, so that time is left to choose, and of the rest what the vector may.
ENRICHERS_SHARE = 1 / 3
VECTORS_SHARE = 1 / 2

KEEP_VECTOR = """
INSERT INTO memoryapp_queryvector (run_id, owner_id, profile_id, vector, typed_vector)
VALUES (%(run)s, %(owner)s, %(profile)s, %(vector)s, %(typed_vector)s)
ON CONFLICT DO NOTHING RETURNING run_id
"""
KEEP_PARENTS_VECTOR = """
INSERT INTO memoryapp_queryvector (run_id, owner_id, profile_id, vector, typed_vector)
SELECT %s, owner_id, profile_id, vector, typed_vector FROM memoryapp_queryvector WHERE owner_id = %s AND run_id = %s
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """One question to one chat user's memory, with what is known before any model is asked.

    ``messages`` are the running conversation, None is the active session; those the memory holds have their number
    there. ``replayed`` is taken from the run ``parent``, which this one tries again. With ``run_id`` the query's
    vector is kept.
    """

    owner_id: int
    query: str
    strategy: str
    parameters: Parameters
    today: date
    background: Background
    prompts: PromptBook
    run_id: UUID | None = None
    messages: tuple[MessageContent, ...] | None = None
    media: tuple[Media, ...] = ()
    parent: str = ""
    replayed: Replayed = Replayed()


@dataclass(frozen=True, slots=True)
class _Recall:
    """A request, the topics read so far, and the seconds that are left."""

    request: RecallRequest
    clients: Clients
    topics: _Topics
    budget: Budget

    @property
    def asks_models(self) -> bool:
        return self.request.strategy != "vector" and settings.RERANKER_ENABLED


class _Topics:
    """The owner's topics, each read once a run."""

    def __init__(self, clients: Clients, owner_id: int) -> None:
        self._pool = clients.pool
        self._owner_id = owner_id
        self._read: dict[int, TopicContent] = {}

    async def __call__(self, ids: Sequence[int]) -> Sequence[TopicContent]:
        missing = [number for number in ids if number not in self._read]
        if missing:
            async with self._pool.connection() as connection:
                read = await reading.read_topics(connection, self._owner_id, missing)
            self._read |= {topic.id: topic for topic in read}
        return [self._read[number] for number in dict.fromkeys(ids) if number in self._read]


async def recall(request: RecallRequest, clients: Clients) -> AsyncGenerator[Event | ModelProgress, None]:
    """Every event of the run, ``RunFinished`` with the run's totals last; in between what a model says just now."""
    began = time.perf_counter()
    seen: list[Event] = []
    async for event in _stages(request, clients):
        if isinstance(event, ModelProgress):
            yield event
            continue
        if isinstance(event, RunFinished):
            totals = replace(summarise(seen), seconds=round(time.perf_counter() - began, 6))
            event = replace(event, totals=totals)
        seen.append(event)
        yield event


async def _stages(request: RecallRequest, clients: Clients) -> AsyncGenerator[Event | ModelProgress, None]:
    run = _Recall(request, clients, _Topics(clients, request.owner_id), Budget(request.parameters.seconds))
    yield _started(run)
    line = QueryEnriched(request.query, request.query, note="failed", seconds=0.0)
    async with aclosing(_enriched(run)) as steps:
        async for step in steps:
            if isinstance(step, QueryEnriched):
                line = step
            else:
                yield step
    run.budget.charge(line.seconds)
    query = await _worded(run, line)
    run.budget.charge(query.seconds)
    yield query.line
    try:
        async with run.budget.spending():
            found, baseline = await _found(run, query)
    except TimeoutError:
        yield RunFinished(selected=(), dropped=(), fallback="timeout", note=LATE_SEARCH)
        return
    yield found
    if not run.asks_models:
        choice = vector_choice(found, baseline, strategy=request.strategy)
        yield replace(choice, context=await _context(run, found, choice))
        return
    began = time.perf_counter()
    async for event in flash.rerank(
        _rerank_request(run, query.line.enriched, found, baseline),
        chat=clients.chat,
        read_topics=run.topics,
        limits=replace(_limits(request.parameters), seconds=max(run.budget.left, 0.0)),
    ):
        if isinstance(event, RunFinished):
            seconds = round(time.perf_counter() - began, 6)
            event = replace(event, context=await _context(run, found, event), rerank_seconds=seconds)
        yield event


def _started(run: _Recall) -> RunStarted:
    request, is_flash = run.request, run.asks_models
    return RunStarted(
        strategy=request.strategy,
        query=request.query,
        parameters=request.parameters.as_dict(),
        prompt_version=run.request.prompts["rerank", language_of(request.query)].label if is_flash else "",
        model=run.clients.chat.model if is_flash else "",
        profile=run.clients.embedder.profile.name,
        media=tuple(media.item for media in request.media),
        parent=request.parent,
    )


async def _enriched(run: _Recall) -> AsyncGenerator[Retried | SteppedDown | QueryEnriched, None]:
    """What the endpoint does on the way, and at last the query."""
    request, background, replayed = run.request, run.request.background, run.request.replayed
    if replayed.query or not run.asks_models:
        note = "not_wanted" if request.strategy == "vector" else "disabled"
        yield replayed.query or QueryEnriched(request.query, request.query, note=note, seconds=0.0)
        return
    steps = enrich(
        request.query,
        chat=run.clients.enricher,
        messages=background.messages,
        profile=background.profile,
        recent_topics=background.recent_topics,
        media=request.media,
        today=request.today,
        seconds=min(request.parameters.turn_seconds, run.budget.left * ENRICHERS_SHARE),
        prompts=run.request.prompts,
        variables=replayed.enrich_variables,
    )
    async with aclosing(steps):
        async for step in steps:
            yield step


async def _worded(run: _Recall, line: QueryEnriched) -> Worded:
    """The query as search sees it; where nothing is searched, as the run before had it."""
    request = run.request
    if request.replayed.found is not None:
        return Worded(line, Wording(request.query, None))
    seconds = min(request.parameters.turn_seconds, run.budget.left * VECTORS_SHARE)
    talk = [message.text for message in request.background.messages]
    return await worded(line, talk, run.clients.embedder, seconds)


async def _found(run: _Recall, query: Worded) -> tuple[CandidatesFound, tuple[str, ...]]:
    """The candidates and their plain vector order."""
    request, replayed = run.request, run.request.replayed
    if replayed.found is None:
        return await _search(run, query)
    if request.run_id and request.parent:
        async with run.clients.pool.connection() as connection:
            await connection.execute(KEEP_PARENTS_VECTOR, [request.run_id, request.owner_id, request.parent])
    return replayed.found, replayed.baseline


async def _search(run: _Recall, query: Worded) -> tuple[CandidatesFound, tuple[str, ...]]:
    began = time.perf_counter()
    request, clients = run.request, run.clients
    asked = Question(
        owner_id=request.owner_id,
        text=query.typed.text,
        vector=query.typed.vector,
        profile_id=clients.profile_id,
        dimensions=clients.embedder.profile.dimensions,
        rewrite=query.rewrite,
    )
    async with clients.pool.connection() as connection:
        found = await retrieval.search(
            connection,
            asked,
            sizes=_sizes(request.parameters),
            keep=_kept(request, asked),
            layouts=clients.layouts,
        )
    event = CandidatesFound(
        candidates=found.candidates,
        below=found.below,
        passages=found.passages,
        seconds=round(query.seconds + time.perf_counter() - began, 6),
        note=query.note,
        without_vector=found.without_vector,
        people=found.people,
        artifacts=found.artifacts,
        cards=found.cards,
    )
    return event, found.baseline


def _kept(request: RecallRequest, asked: Question) -> list[Asked]:
    """The query's vectors, for staged edits are tried on past runs."""
    *typed, last = (wording.vector for wording in asked.wordings)
    if last is None or request.run_id is None:
        return []
    values = {"run": request.run_id, "owner": asked.owner_id, "profile": asked.profile_id, "vector": last}
    return [(KEEP_VECTOR, {**values, "typed_vector": typed[0] if typed else None})]


def _sizes(parameters: Parameters) -> retrieval.Sizes:
    return retrieval.Sizes(
        topics=parameters.candidates,
        people=parameters.people_candidates,
        artifacts=parameters.artifact_candidates,
        ranked=RANKED,
    )


def _rerank_request(
    run: _Recall, enriched: str, found: CandidatesFound, baseline: tuple[str, ...]
) -> flash.RerankRequest:
    request, background = run.request, run.request.background
    return flash.RerankRequest(
        query=request.query,
        enriched=enriched,
        candidates=tuple(candidate for candidate in found.candidates if candidate.shown),
        baseline=baseline,
        today=request.today,
        messages=background.messages,
        profile=background.profile,
        recent_topics=background.recent_topics,
        people=tuple(candidate for candidate in found.people if candidate.shown),
        artifacts=tuple(candidate for candidate in found.artifacts if candidate.shown),
        media=request.media,
        inner_circle=background.inner_circle,
        prompts=run.request.prompts,
        variables=request.replayed.rerank_variables,
    )


def _limits(parameters: Parameters) -> Limits:
    return Limits(
        max_topics=parameters.max_topics,
        max_people=parameters.max_people,
        max_artifacts=parameters.max_artifacts,
        max_tool_calls=parameters.max_tool_calls,
        seconds=parameters.seconds,
        turn_seconds=parameters.turn_seconds,
        read_chars=parameters.read_chars,
        tool_mode=parameters.tool_mode,
    )


def vector_choice(found: CandidatesFound, baseline: tuple[str, ...], *, strategy: str) -> RunFinished:
    """The baseline every run is shown against: the first five in cosine order, no model asked.

    Without a vector of the query these are the first by words, and the run says so.
    """
    scores = {candidate.id: candidate.score for candidate in found.ranked()}
    selected = tuple(
        Selected(id=topic, rank=rank, reason="", score=scores.get(topic, 0.0), vector_rank=0 if found.note else rank)
        for rank, topic in enumerate(baseline[:VECTOR_TOPICS], start=1)
    )
    fallback = "disabled" if strategy != "vector" else "no_vectors" if found.note else ""
    return RunFinished(selected=selected, dropped=(), fallback=fallback, note=found.note, baseline=baseline)


async def _context(run: _Recall, found: CandidatesFound, choice: RunFinished) -> tuple[ContextPart, ...]:
    """The parts of what the chat model is handed."""
    topics = await run.topics(_numbers(choice.selected))
    people, artifacts = await _told(run, choice)
    known = {message.id for message in run.request.messages or ()}
    candidates = found.named(choice.selected)
    given = (run.request.query, choice.selected, candidates, {topic_id(t.id): t.messages for t in topics}, known)
    is_long = any(topic.size_chars > WHOLE_TOPIC_CHARS for topic in topics)
    # In a thread where exchanges may have to be compared, which takes longer than other runs should wait.
    text = await asyncio.to_thread(topics_text, *given) if is_long else topics_text(*given)
    return assembled(
        profile=run.request.background.profile,
        inner_circle=run.request.background.inner_circle,
        recent_topics=run.request.background.recent_topics,
        topics=text,
        chosen=len(choice.selected),
        people=people,
        artifacts=artifacts,
    )


async def _told(run: _Recall, choice: RunFinished) -> tuple[list[Told], list[Told]]:
    if not (choice.people or choice.artifacts):
        return [], []
    async with run.clients.pool.connection() as connection:
        return await reading.read_items(
            connection, run.request.owner_id, _numbers(choice.people), _numbers(choice.artifacts)
        )


def _numbers(selected: Sequence[Selected]) -> list[int]:
    """The row numbers of chosen items; our own ids always have one."""
    return [cast("tuple[str, int]", parse_item_id(item.id))[1] for item in selected]
