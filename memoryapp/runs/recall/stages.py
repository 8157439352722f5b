"""The stages of a recall, as events: the run starts, its strategy works, its context is assembled.

``recall`` knows no particular strategy. It hands the requested one its ports, and completes the last event that it
returns with the context and the totals of the run. The strategy works in a task of its own, so a slow reader of the
events does not hold it up; a reader that leaves ends it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from django.conf import settings
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.agents.enricher import enrich
from memoryapp.engine.budget import Deadline
from memoryapp.engine.candidates import Candidate, CrossEncoded
from memoryapp.engine.chat.cross_encoder import CrossEncoderError
from memoryapp.engine.chat.protocol import Chat, RecordedChat
from memoryapp.engine.context import ContextItem, PassageMessages, SelectedTopics, assembled, unsure_text
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import (
    RESPELLED,
    CandidatesFound,
    Event,
    ModelProgress,
    QueryEnriched,
    RunFinished,
    RunStarted,
    Selected,
)
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.kinds.kind import ContextPart
from memoryapp.engine.memory import (
    ANYWHERE,
    MessageContent,
    ReadTopics,
    TopicContent,
    Where,
    parse_item_id,
    topic_id,
    topic_number,
)
from memoryapp.engine.notes import Note
from memoryapp.engine.offline.judging import answer_chances, wants_present
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.offline.scorer import OfflineChat, verdict_in
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.engine.outline import Outline, summarise
from memoryapp.engine.parameters import RerankParameters
from memoryapp.engine.prompts.prompt import language_of
from memoryapp.engine.strategies import STRATEGIES, vector
from memoryapp.engine.strategies.react.answering import nothing_within
from memoryapp.engine.strategies.strategy import (
    AnyStrategy,
    Found,
    Ports,
    PreparedSearch,
    RerankScores,
    SearchTimeout,
    nearest,
)
from memoryapp.engine.threads import in_thread_if_long
from memoryapp.memory import content
from memoryapp.runs.recall.request import RecallClients, RecallRequest
from memoryapp.search import memory_index, retrieval
from memoryapp.search.similarity import Question
from memoryapp.search.spelling import respelled
from memoryapp.search.wording import Worded, copy_vectors, storing_statements, word_query

# Shares of the remaining seconds that the enricher, the query's vectors and the cross-encoder may take, so that enough
# time is left to choose.
ENRICHERS_SHARE = 1 / 3
VECTORS_SHARE = 1 / 2
CROSS_ENCODERS_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class RunMemory:
    """The access of a run to the memory and the models, from which its ports are made. A topic is read once
    in a run. ``sessions`` are the messages of the active sessions that were found, which stay what they were."""

    request: RecallRequest
    clients: RecallClients
    deadline: Deadline
    topics: dict[int, TopicContent] = field(default_factory=dict)
    sessions: dict[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, request: RecallRequest, clients: RecallClients) -> RunMemory:
        if isinstance(clients.chat, OfflineChat) and isinstance(request.parameters, RerankParameters):
            clients = replace(clients, chat=OfflineChat(request.parameters.least_certainty))
        if request.replayed.replies:
            recorded = RecordedChat(clients.chat, request.replayed.replies)
            verifier = recorded.beside(clients.verifier) if clients.verifier else None
            clients = replace(clients, chat=recorded, verifier=verifier)
        return cls(request, clients, Deadline(request.parameters.seconds))

    @property
    def ports(self) -> Ports:
        return Ports(
            chat=self.clients.chat,
            enrich=self.enrich,
            search=self.search,
            read_topics=self.read_topics,
            read_messages=self.read_messages,
            rerank_scores=self.rerank_scores,
            deadline=self.deadline,
            writer=self.writer,
            judge=self.writer and self.clients.verifier,
        )

    @property
    def writer(self) -> Chat | None:
        """The chat model, when one is connected and models are not switched off."""
        return self.clients.chat if self.clients.enricher and settings.RERANKER_ENABLED else None

    async def enrich(self, emit: Emit) -> QueryEnriched:
        """The query rewritten by the enricher, or by hand in a fork."""
        request, background, replayed = self.request, self.request.background, self.request.replayed
        if replayed.rewrite:
            return QueryEnriched(request.typed.text, replayed.rewrite, note="by_hand", seconds=0.0)
        if replayed.query:
            return replayed.query
        return await enrich(
            request.typed.text,
            chat=self.clients.enricher,
            messages=background.messages,
            profile=background.profile,
            recent_topics=background.recent_topics,
            media=request.media,
            today=request.today,
            seconds=min(request.parameters.turn_seconds, self.deadline.left * ENRICHERS_SHARE),
            prompts=request.prompts,
            variables=replayed.enrich_variables,
            emit=emit,
        )

    async def search(self, line: QueryEnriched) -> PreparedSearch:
        """Prepares the search for a query, with vectors if they arrive in time."""
        replayed = self.request.replayed
        if replayed.found is not None:
            return PreparedSearch(replayed.query or line, partial(self._replay, replayed.found))
        line = await self._respelled(line)
        talk = [message.text for message in self.request.background.messages]
        seconds = min(self.request.parameters.turn_seconds, self.deadline.left * VECTORS_SHARE)
        authors = await self._authors()
        query = await word_query(line, talk, self.clients.embedder, seconds, authors)
        return PreparedSearch(query.line, partial(self._find, query), query.seconds)

    async def _respelled(self, line: QueryEnriched) -> QueryEnriched:
        """The line with typos of one letter put right, where no chat model reads it. Raises SearchTimeout."""
        embedder = self.clients.embedder
        if self.clients.enricher or line.enriched != line.query or not isinstance(embedder, OfflineEmbedder):
            return line
        try:
            async with self.deadline.timeout():
                written = await respelled(self.clients.pool, self.request.owner_id, line.query, embedder.likelier)
        except TimeoutError:
            raise SearchTimeout from None
        return line if written == line.query else replace(line, enriched=written, note=RESPELLED)

    async def _authors(self) -> Sequence[str]:
        """Who speaks in the memory. The database is queried only when an edit came since the names were read. Raises
        SearchTimeout like a search."""
        known = self.clients.index_cache.of(self.request.owner_id)
        if known and known.version == self.request.version:
            return known.origins.authors
        try:
            async with self.deadline.timeout(), self.clients.pool.connection() as connection:
                index = await memory_index.current(connection, self.request.owner_id, self.clients.index_cache)
        except TimeoutError:
            raise SearchTimeout from None
        return index.origins.authors

    async def _replay(
        self, event: CandidatesFound, *, fusion: Fusion = fuse, passages: int = 0, where: Where = ANYWHERE
    ) -> Found:
        """What the run that is tried again found, whatever the arguments; copies its query vectors to this run."""
        request = self.request
        self.sessions.update(event.sessions)
        if request.run_id and request.parent:
            await copy_vectors(self.clients.pool, request.owner_id, source=request.parent, target=request.run_id)
        return Found(event, request.replayed.baseline)

    async def _find(self, query: Worded, *, fusion: Fusion = fuse, passages: int = 0, where: Where = ANYWHERE) -> Found:
        try:
            async with self.deadline.timeout():
                return await self._found(query, fusion, passages, where)
        except TimeoutError:
            raise SearchTimeout from None

    async def _found(self, query: Worded, fusion: Fusion, passages: int, where: Where) -> Found:
        began = time.perf_counter()
        request, clients = self.request, self.clients
        asked = Question(
            owner_id=request.owner_id,
            text=query.typed.text,
            vector=query.typed.vector,
            profile_id=clients.profile_id,
            dimensions=clients.embedder.profile.dimensions,
            rewrite=query.rewrite,
            where=request.where.over(where),
            fresh=request.parameters.fresh == "yes",
            known=request.at_hand.with_text(query.line.query),
        )
        sizes = retrieval.Sizes(
            topics=request.parameters.candidates,
            people=request.parameters.people_candidates,
            artifacts=request.parameters.artifact_candidates,
            passages=passages,
        )
        async with clients.pool.connection() as connection:
            found, cached_seconds = await retrieval.cached_search(
                connection,
                asked,
                clients.search_cache,
                sizes=sizes,
                keep=storing_statements(request.run_id, asked),
                index=clients.index_cache,
                fusion=fusion,
            )
        found, cross_encoded = await self._cross_encoded(query.line.query, found, asked.where)
        event = CandidatesFound(
            candidates=found.candidates,
            passages=found.passages,
            seconds=round(query.seconds + time.perf_counter() - began, 6),
            notes=query.notes,
            without_vector=found.without_vector,
            people=found.people,
            artifacts=found.artifacts,
            cards=found.cards,
            understood=found.understood,
            cross_encoder=cross_encoded,
            cached_seconds=cached_seconds,
            copies=found.copies,
            sessions=found.sessions,
            newest=found.newest,
        )
        self.sessions.update(found.sessions)
        usual = self.clients.embedder.profile.usual_best
        best = max((candidate.cosine for candidate in event.shown), default=0.0)
        return Found(event, found.baseline, found.best_passages, found.rarity, max(best, 0.0) / usual if usual else 0.0)

    async def _cross_encoded(
        self, query: str, found: retrieval.SearchResult, where: Where
    ) -> tuple[retrieval.SearchResult, CrossEncoded]:
        """The result reordered by the cross-encoder, when one is configured and it answers in time."""
        encoder = self.clients.cross_encoder
        if encoder is None or not (first := found.candidates[: settings.RERANK_TOP_N]):
            return found, CrossEncoded()
        async with self.clients.pool.connection() as connection:
            texts = await retrieval.passage_texts(connection, self.request.owner_id, first, where)
        began, failure = time.perf_counter(), ""
        try:
            scores = await encoder.scores(query, texts, self.deadline.left * CROSS_ENCODERS_SHARE)
            found = retrieval.reranked(found, scores, self.request.parameters.candidates)
        except CrossEncoderError as error:
            failure = str(error)
        return found, CrossEncoded(encoder.model, len(first), round(time.perf_counter() - began, 6), failure)

    async def read_topics(self, ids: Sequence[int]) -> Sequence[TopicContent]:
        missing = [number for number in ids if number not in self.topics]
        if missing:
            sessions = {number: self.sessions.get(topic_id(number), ()) for number in missing if number < 0}
            request = self.request
            async with self.clients.pool.connection() as connection:
                read = await content.read_topics(connection, request.owner_id, missing, request.where, sessions)
            self.topics.update({topic.id: topic for topic in read})
        return [self.topics[number] for number in dict.fromkeys(ids) if number in self.topics]

    async def read_messages(self, ids: Sequence[int]) -> Sequence[MessageContent]:
        async with self.clients.pool.connection() as connection:
            return await content.read_messages(connection, self.request.owner_id, ids)

    async def rerank_scores(self, query: str, texts: Sequence[str]) -> RerankScores:
        """Scores from the cross-encoder, if one is configured and answers in time; else from the embedded scorer."""
        encoder, failure = self.clients.cross_encoder, ""
        if encoder is not None:
            try:
                scores = await encoder.scores(query, texts, self.deadline.left * CROSS_ENCODERS_SHARE)
                return RerankScores(scores.tolist(), encoder.model or type(encoder).__name__)
            except CrossEncoderError as error:
                failure = str(error)
        chances = await in_thread_if_long(answer_chances, query, texts, size=sum(map(len, texts)))
        return RerankScores(chances, failure=failure)


# The context of a finished selection: the text for the chat model, assembled from the memory.


async def context_of(
    choice: RunFinished,
    found: CandidatesFound | None,
    request: RecallRequest,
    *,
    read_topics: ReadTopics,
    pool: AsyncConnectionPool,
) -> tuple[ContextPart, ...]:
    topics = await read_topics([topic_number(topic.id) for topic in (*choice.selected, *choice.unsure)])
    people, artifacts = await _items(choice, request.owner_id, pool)
    candidates = found.named((*choice.selected, *choice.unsure)) if found else {}
    by_passages = request.parameters.context == "passages" or choice.unsure
    sent = request.messages or ()
    texts = {message.text.strip() for message in sent}
    talk = (message for topic in topics if topic.id < 0 for message in topic.messages)
    chosen = SelectedTopics(
        query=request.typed.text,
        selected=choice.selected,
        candidates=candidates,
        messages={topic_id(topic.id): topic.messages for topic in topics},
        known={message.id for message in sent} | {message.id for message in talk if message.text.strip() in texts},
        passages=await _passages(candidates, request.owner_id, pool) if by_passages else {},
    )
    makes = STRATEGIES[request.strategy].text_of(request.parameters.context)
    text = await in_thread_if_long(makes, chosen, size=sum(topic.size_chars for topic in topics))
    return assembled(
        profile=request.background.profile,
        inner_circle=request.background.inner_circle,
        recent_topics=request.background.recent_topics,
        topics=text,
        chosen=len(choice.selected),
        unsure=unsure_text(replace(chosen, selected=choice.unsure)) if choice.unsure else "",
        near=len(choice.unsure),
        people=people,
        artifacts=artifacts,
    )


async def _passages(candidates: Mapping[str, Candidate], owner_id: int, pool: AsyncConnectionPool) -> PassageMessages:
    """The messages of the passage by which each topic was found."""
    numbers = [each.passage_id for each in candidates.values() if each.passage_id]
    if not numbers:
        return {}
    async with pool.connection() as connection:
        read = await content.read_passages(connection, owner_id, numbers)
    return {id: read.get(each.passage_id, ()) for id, each in candidates.items()}


async def _items(
    choice: RunFinished, owner_id: int, pool: AsyncConnectionPool
) -> tuple[list[ContextItem], list[ContextItem]]:
    """The selected people and artifacts."""
    if not (choice.people or choice.artifacts):
        return [], []
    async with pool.connection() as connection:
        return await content.read_items(connection, owner_id, _numbers(choice.people), _numbers(choice.artifacts))


def _numbers(selected: Sequence[Selected]) -> list[int]:
    """The row numbers of selected items; ids that the program made always have one."""
    return [cast("tuple[str, int]", parse_item_id(item.id))[1] for item in selected]


Emitted = Event | ModelProgress


async def recall(
    request: RecallRequest, clients: RecallClients, unread: deque[Emitted] | None = None
) -> AsyncGenerator[Emitted, None]:
    """Every event of the run, with ``RunFinished`` and the run's totals last; in between, the text that
    a model has sent so far. Raises what the strategy raises, after its events. Events wait in ``unread`` for the
    reader; one that is cancelled finds there what happened before and was not yet read."""
    stream = _Stream(deque() if unread is None else unread)
    work = asyncio.create_task(_work(RunMemory.of(request, clients), stream.put))
    work.add_done_callback(stream.end)
    try:
        while event := await stream.get():
            yield event
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


class _Stream:
    """The queue between the strategy and the reader. Text that a model has sent so far contains all that was sent
    before, so only the latest waits for a slow reader."""

    def __init__(self, waiting: deque[Emitted]) -> None:
        self._waiting = waiting
        self._has_ended = False
        self._changed = asyncio.Event()

    def put(self, event: Emitted) -> None:
        if isinstance(event, ModelProgress) and self._waiting and isinstance(self._waiting[-1], ModelProgress):
            self._waiting.pop()
        self._waiting.append(event)
        self._changed.set()

    def end(self, work: asyncio.Task[None]) -> None:
        self._has_ended = True
        self._changed.set()

    async def get(self) -> Emitted | None:
        """The next event; None after the last one."""
        while not self._waiting and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft() if self._waiting else None


async def _work(memory: RunMemory, emit: Emit) -> None:
    # The deadline uses the same clock.
    began = asyncio.get_running_loop().time()
    seen: list[Event] = []

    def seen_and_emitted(event: Emitted) -> None:
        if not isinstance(event, ModelProgress):
            seen.append(event)
        emit(event)

    strategy = _in_force(STRATEGIES[memory.request.strategy])
    seen_and_emitted(_started(strategy, memory))
    if decided := memory.request.background.decided:
        pinned, never = (tuple(each.id for each in decided if each.recall == mode) for mode in ("pinned", "never"))
        seen_and_emitted(DecisionsApplied(pinned, never))
    try:
        finished = await strategy.recall(memory.request.for_strategy, memory.ports, seen_and_emitted)
    except SearchTimeout:
        finished = RunFinished(selected=(), dropped=(), fallback="timeout", notes=(Note("late_search"),))
    emit(await _completed(finished, seen, memory, began))


def _in_force(strategy: AnyStrategy) -> AnyStrategy:
    """The strategy itself, or the one that replaces it while models are switched off."""
    return strategy if settings.RERANKER_ENABLED or not strategy.needs_model else vector.WITHOUT_MODEL


def _started(strategy: AnyStrategy, memory: RunMemory) -> RunStarted:
    request, clients = memory.request, memory.clients
    model = _model(strategy, memory)
    prompts = [each.of(request.prompts, language_of(request.query)).label for each in strategy.prompts if model]
    return RunStarted(
        strategy=request.strategy,
        query=request.query,
        parameters=request.parameters.as_dict(),
        prompt_version=prompts[0] if prompts else "",
        model=model,
        profile=clients.embedder.profile.name,
        media=tuple(media.item for media in request.media),
        parent=request.parent,
    )


def _model(strategy: AnyStrategy, memory: RunMemory) -> str:
    """The model that the strategy asks; empty when it asks none."""
    if strategy.needs_model:
        return memory.clients.chat.model
    return memory.writer.model if memory.writer and strategy.prompts else ""


async def _with_pinned(finished: RunFinished, memory: RunMemory) -> RunFinished:
    """The selection with the pinned topics, as far as the filters of the run permit them."""
    pinned = memory.request.background.numbers("Topic", "pinned")
    if not pinned:
        return finished
    names = {topic_id(number) for number in pinned}
    selected = [replace(each, pinned=each.id in names) for each in finished.selected]
    chosen = {each.id for each in selected}
    read = await memory.read_topics([number for number in pinned if topic_id(number) not in chosen])
    for topic in read:
        if topic.messages:
            selected.append(Selected(topic_id(topic.id), len(selected) + 1, "", 0.0, 0, pinned=True))
    return replace(finished, selected=tuple(selected))


async def _completed(ended: RunFinished, seen: list[Event], memory: RunMemory, began: float) -> RunFinished:
    """The last event with what is pinned, the context of the selection and the cost of the run."""
    outline = Outline.of(seen)
    found = outline.found
    is_scored = outline.started is not None and outline.started.model == EMBEDDED_MODEL and not ended.fallback
    is_empty = not (ended.selected or ended.people or ended.artifacts)
    verdict = verdict_in(outline.replies[-1].text) if is_scored and is_empty and outline.replies else None
    if verdict and verdict.said_by:
        note = Note("said_by_others", {"named": verdict.named, "who": verdict.said_by})
        ended = replace(ended, notes=(*ended.notes, note))
    if found and is_scored and is_empty and memory.request.parameters.when_unsure == "passages":
        ended = replace(ended, unsure=nearest(found, newest_first=wants_present(memory.request.typed.text)))
    if found and is_empty and not found.shown and not STRATEGIES[memory.request.strategy].answers:
        why = nothing_within(found.understood.where, found.understood.absent)
        ended = replace(ended, notes=(*ended.notes, *why))
    ended = await _with_pinned(ended, memory)
    if found or ended.selected:
        context = await context_of(
            ended, found, memory.request, read_topics=memory.read_topics, pool=memory.clients.pool
        )
        ended = replace(ended, context=context)
    return replace(ended, totals=replace(summarise(seen), seconds=round(asyncio.get_running_loop().time() - began, 6)))
