"""The ports of one run: functions for its strategy, bound to one owner, one connection pool and one deadline.

No connection is held while a model is asked: each query borrows one. In a fork, the ports
return what its parent recorded, so that a strategy need not know about it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from django.conf import settings

from memoryapp.engine.agents.enricher import enrich
from memoryapp.engine.budget import Deadline
from memoryapp.engine.candidates import CrossEncoded
from memoryapp.engine.chat.cross_encoder import CrossEncoderError
from memoryapp.engine.chat.protocol import Chat, RecordedChat
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import RESPELLED, CandidatesFound, QueryEnriched
from memoryapp.engine.fusion import Fusion, fuse
from memoryapp.engine.memory import ANYWHERE, MessageContent, TopicContent, Where, topic_id
from memoryapp.engine.offline.judging import answer_chances
from memoryapp.engine.offline.scorer import OfflineChat
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.engine.parameters import RerankParameters
from memoryapp.engine.strategies.strategy import Found, Ports, PreparedSearch, RerankScores, SearchTimeout
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
        """Who speaks in the memory. The database is queried only when an edit came since the names were read.

        Raises SearchTimeout like a search.
        """
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
        """Returns what the run that is tried again found, whatever the arguments; copies its query vectors
        to this run."""
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
        """Scores from the cross-encoder, when one is configured and it answers in time; otherwise from the embedded
        scorer."""
        encoder, failure = self.clients.cross_encoder, ""
        if encoder is not None:
            try:
                scores = await encoder.scores(query, texts, self.deadline.left * CROSS_ENCODERS_SHARE)
                return RerankScores(scores.tolist(), encoder.model or type(encoder).__name__)
            except CrossEncoderError as error:
                failure = str(error)
        chances = await in_thread_if_long(answer_chances, query, texts, size=sum(map(len, texts)))
        return RerankScores(chances, failure=failure)
