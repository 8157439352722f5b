"""The tools that find and order passages: ``search``, ``rerank`` and ``fetch_docs``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from memoryapp.engine.chat.cross_encoder import log_odds
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import QueryEnriched
from memoryapp.engine.fusion import Fusion, ReciprocalRanks, Sum, z_scores
from memoryapp.engine.memory import ANYWHERE, Where, topic_id
from memoryapp.engine.strategies.ports import Found, FoundPassage, Ports, PreparedSearch
from memoryapp.engine.strategies.react.parameters import ReactParameters
from memoryapp.engine.strategies.react.pool import Document, Pool, diverse
from memoryapp.engine.strategies.react.router import weights_of
from memoryapp.engine.strategies.react.shapes import (
    FetchInput,
    FetchOutput,
    Hit,
    RerankInput,
    RerankOutput,
    Rescored,
    Route,
    SearchInput,
    SearchOutput,
)
from memoryapp.engine.strategies.react.toolbox import ToolFailed
from memoryapp.engine.text.lexical import Floats
from memoryapp.engine.text.lines import one_line

# With fewer hits than this, guessed filters were too narrow.
_FEWEST_FILTERED = 3
_SNIPPET_CHARS = 200
# What a cross-encoder's reading of a passage counts beside the search, in deviations; not measured, as in the search.
# The embedded scorer reads words alone, which the search has weighed already, so its reading moves nothing: on the
# forty questions of the demo memory recall@5 was .887 without it, .863 where it counted .2 and .856 at .5.
_CROSS_ENCODER = 3.0


@dataclass(slots=True)
class Searching:
    """The three tools over one pool. ``prepared`` is the search for the question itself, whose vectors are ready.

    ``widened`` is the guess that left too few hits, ``narrowed`` the one within which the last search stayed; the
    filters of the run itself apply to every search.
    """

    question: str
    prepared: PreparedSearch
    ports: Ports
    parameters: ReactParameters
    pool: Pool = field(default_factory=Pool)
    widened: Where = ANYWHERE
    narrowed: Where = ANYWHERE

    def __post_init__(self) -> None:
        self.pool.seconds += self.prepared.seconds

    async def search(self, asked: SearchInput, emit: Emit) -> SearchOutput:
        """Searches for each query by meaning and words, and adds the results to the pool."""
        where = asked.where
        known = set(self.pool.passages)
        found = await self._find(asked, where)
        relaxed, self.narrowed = False, where
        for wider in _wider(where):
            if len({passage.id for passage in found}) < _FEWEST_FILTERED:
                relaxed, self.widened, self.narrowed = True, where, wider
                found += await self._find(asked, wider)
        self._diversify()
        ids = {passage.id for passage in found}
        listed = [self.pool.passages[id] for id in self.pool.order if id in ids]
        return SearchOutput(
            hits=tuple(_hit(passage) for passage in listed),
            new=len(ids - known),
            by_meaning=sum(passage.cosine > 0 for passage in listed),
            by_words=sum(passage.bm25 > 0 for passage in listed),
            relaxed=relaxed,
        )

    async def _find(self, asked: SearchInput, where: Where) -> list[FoundPassage]:
        """The results of all queries; those that arrived in time are in the pool even if a later one is late.

        The queries are searched concurrently, because each may wait for its vector, and join the pool in their order.
        """
        weight, brought = self._weight_of_meaning(asked.route), list[FoundPassage]()
        began = time.perf_counter()
        searches = [asyncio.create_task(self._found(query, asked, where)) for query in asked.queries]
        try:
            for query, search in zip(asked.queries, searches, strict=True):
                found = await search
                self.pool.add(found, is_question=query == self.question, weight=weight)
                brought += found.passages
        finally:
            for search in searches:
                search.cancel()
            await asyncio.gather(*searches, return_exceptions=True)
            self.pool.seconds += time.perf_counter() - began
        return brought

    async def _found(self, query: str, asked: SearchInput, where: Where) -> Found:
        line = QueryEnriched(query, query, note="not_wanted", seconds=0.0)
        prepared = self.prepared if query == self.question else await self.ports.search(line)
        return await prepared.find(fusion=self._fusion(asked.route), passages=asked.k, where=where)

    def _fusion(self, route: Route) -> Fusion:
        meaning, words = weights_of(route)
        if self.parameters.fusion == "rrf":
            return ReciprocalRanks(self.parameters.rrf_k, self.parameters.rank_depth, meaning, words)
        return Sum(meaning, words)

    def _weight_of_meaning(self, route: Route) -> float:
        """The weight of meaning, as far as the parts of a score show it; ranks have weights of their own."""
        return weights_of(route)[0] if self.parameters.fusion == "zsum" else 1.0

    def _diversify(self) -> None:
        if self.parameters.mmr == "on":
            passages = [self.pool.passages[id] for id in self.pool.order]
            taken = diverse(passages, self.parameters.mmr_lambda, self.parameters.mmr_hits)
            self.pool.keep(taken)
            self.pool.rank(taken)

    async def rerank(self, asked: RerankInput, emit: Emit) -> RerankOutput:
        """The first passages in the order of a second scoring; only a cross-encoder changes the order."""
        passages = [self.pool.passages[id] for id in asked.ids[: asked.top_n] if id in self.pool.passages]
        if not passages:
            raise ToolFailed("no_such_passages")
        read = await self.ports.rerank_scores(asked.query, [passage.text for passage in passages])
        order = [passage.id for passage in passages]
        if read.by:
            order = self._reordered(passages, log_odds(np.array(read.scores, dtype=np.float64)))
            self.pool.rank(order)
        moved = sum(before.id != after for before, after in zip(passages, order, strict=True))
        by_id = dict(zip((passage.id for passage in passages), read.scores, strict=True))
        hits = tuple(Rescored(id=id, score=round(by_id[id], 6)) for id in order)
        return RerankOutput(hits=hits, by=read.by or "scorer", moved=moved, failure=read.failure)

    def _reordered(self, passages: Sequence[FoundPassage], second: Floats) -> list[int]:
        """The passages by both scorings, that of the search and the ``second``, shape (passages,)."""
        first = np.array([self.pool.worth[passage.id] for passage in passages])
        worth = z_scores(first, 1.0) + _CROSS_ENCODER * z_scores(second)
        return [passages[place].id for place in np.argsort(-worth, kind="stable").tolist()]

    async def fetch(self, asked: FetchInput, emit: Emit) -> FetchOutput:
        """The passages with their messages as they are stored now; a passage whose messages were erased is missing."""
        passages = [self.pool.passages[id] for id in asked.ids if id in self.pool.passages]
        wanted = list(dict.fromkeys(number for passage in passages for number in passage.messages))
        stored = {message.id: message for message in await self.ports.read_messages(wanted)}
        fetched = [
            Document(passage, topic_id(passage.topics[0]), tuple(stored[n] for n in passage.messages if n in stored))
            for passage in passages
            if passage.topics and any(number in stored for number in passage.messages)
        ]
        self.pool.documents |= {document.passage.id: document for document in fetched}
        return FetchOutput(
            documents=tuple(document.passage.id for document in fetched),
            messages=len(stored),
            missing=len(asked.ids) - len(fetched),
            topics=tuple(dict.fromkeys(document.topic for document in fetched)),
        )


def _wider(where: Where) -> Iterator[Where]:
    """Wider guesses for when too little is found: first only the same days, then none."""
    days = Where(where.since, where.until)
    if days and days != where:
        yield days
    if where:
        yield ANYWHERE


def _hit(passage: FoundPassage) -> Hit:
    topics = tuple(map(topic_id, passage.topics))
    return Hit(id=passage.id, score=passage.score, snippet=one_line(passage.text[:_SNIPPET_CHARS]), topics=topics)


def is_flat(scores: Sequence[float], least: float) -> bool:
    """Whether the scores hardly differ, so that their order says little."""
    return len(scores) > 1 and float(np.std(scores)) < least
