"""The tools that find and order passages: ``search``, ``rerank`` and ``fetch_docs``."""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.chat.cross_encoder import log_odds
from memoryapp.engine.context import estimated_tokens
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, QueryEnriched
from memoryapp.engine.fusion import Fusion, ReciprocalRanks, Sum, z_scores
from memoryapp.engine.memory import ANYWHERE, MessageContent, Where, topic_id
from memoryapp.engine.strategies.react import toolbox
from memoryapp.engine.strategies.react.planning import weights_of
from memoryapp.engine.strategies.strategy import Found, FoundPassage, Ports, PreparedSearch
from memoryapp.engine.text.lexical import Floats, idf, stems
from memoryapp.engine.text.lines import message_text, one_line, placed, source_text
from memoryapp.engine.text.passages import line_of, parts_of
from memoryapp.engine.text.scripts import beginning

# What the searches of a run have brought: passages of all queries in one order, and the candidates they belong to.
#
# Passages and topics of several queries are joined by their best score; the question itself counts a little more than
# what was made of it. A later search adds to the pool and takes nothing away, and topics stay in the order of the
# search unless passages were put into one on purpose: on the harder questions of the demo memory topics by their
# passages, as routed, reordered and searched twice, had recall@5 .742 in Russian where the search has .777, and .863
# instead of .887 on the forty older ones.

# How many deviations lower a passage counts that was not found by the question itself.
_SECOND_HAND = 1.0
# A source is cut only if at least this much of it remains.
_LEAST_TOKENS = 40


@dataclass(frozen=True, slots=True)
class Document:
    """A passage with its messages as they are stored now; ``topic`` is the topic under which it is cited."""

    passage: FoundPassage
    topic: str
    messages: tuple[MessageContent, ...]

    @property
    def text(self) -> str:
        """The passage, or its messages if the passage contains them completely."""
        whole = "\n".join(map(line_of, self.messages))
        return whole if len(whole) <= len(self.passage.text) else self.passage.text

    @property
    def parts(self) -> list[MessageContent]:
        """The messages, each with the part of its text that the passage contains."""
        return parts_of(self.passage.text, self.messages)

    def source(self, number: int, room: int) -> str:
        """The source as a model reads it, cut between words at ``room`` tokens; empty when too little would remain."""
        request, parts = self._request, self.parts
        lines = "\n".join([*([f"[In reply to]: {one_line(request)}"] if request else []), *map(message_text, parts)])
        day = f"{self.messages[0].sent_at:%Y-%m-%d}"
        whole = source_text(number, day, lines)
        tokens = estimated_tokens(whole)
        if tokens <= room:
            return whole
        if room < _LEAST_TOKENS:
            return ""
        return source_text(number, day, beginning(lines, int(len(lines) * room / tokens * 0.95)) + " …")

    @property
    def _request(self) -> str:
        """The beginning of an earlier message, with which the passage begins when it continues a long reply."""
        before, found, _rest = self.passage.text.partition(line_of(self.parts[0]))
        return before.strip() if found else ""


class Pool:
    """Passages by number; ``order`` is that of the numbers, best first.

    ``meaning`` is the most that meaning adds to the score of a topic that the question itself has found, ``nearness``
    that of ``Found`` for the question, ``rarity`` the idf of each stem of any query that the memory holds. ``seconds``
    is how long searching took; searches at the same time count once."""

    def __init__(self) -> None:
        self.passages: dict[int, FoundPassage] = {}
        self.worth: dict[int, float] = {}
        self.order: list[int] = []
        self.documents: dict[int, Document] = {}
        self.meaning = 0.0
        self.nearness = 0.0
        self.rarity: dict[str, float] = {}
        self.seconds = 0.0
        self._is_ranked = False
        self._found: list[tuple[Found, float]] = []

    @property
    def is_empty(self) -> bool:
        return not self._found

    def weights(self, terms: Iterable[str]) -> dict[str, float]:
        """The rarity of each of the ``terms`` in the memory; a term that no passage contains counts as the rarest."""
        unknown = idf(max((found.event.passages for found, _cost in self._found), default=0), 0)
        return {term: self.rarity.get(term, unknown) for term in sorted(terms)}

    @property
    def baseline(self) -> tuple[str, ...]:
        return self._found[0][0].baseline if self._found else ()

    def add(self, found: Found, *, is_question: bool, weight: float = 1.0) -> None:
        """Adds the result of one query, in whose scores meaning had that ``weight``."""
        cost = 0.0 if is_question else _SECOND_HAND
        self._found.append((found, cost))
        self.rarity |= found.rarity
        if is_question and weight:
            near = (each.parts.get("meaning", 0.0) / weight for each in found.event.shown)
            self.meaning = max(self.meaning, *near, 0.0)
            self.nearness = max(self.nearness, found.nearness)
        for passage in found.passages:
            worth = passage.fused - cost
            if worth > self.worth.get(passage.id, float("-inf")):
                self.passages[passage.id], self.worth[passage.id] = passage, worth
        self.order = sorted(self.passages, key=lambda id: (-self.worth[id], id))

    def rank(self, ids: Sequence[int]) -> None:
        """Puts these passages first, in this order, and their topics with them."""
        self._is_ranked = True
        first = [id for id in dict.fromkeys(ids) if id in self.passages]
        self.order = [*first, *(id for id in self.order if id not in set(first))]

    def keep(self, ids: Iterable[int]) -> None:
        """Removes from the order all passages but these."""
        kept = set(ids)
        self.order = [id for id in self.order if id in kept]

    def event(self, shown: int) -> CandidatesFound:
        """The pool as candidates: topics by their best score, behind those whose passages were put first. So many are
        ``shown``, of those that any search showed. Numbers are those of the search that found the topic best."""
        first = self._found[0][0].event
        understood = replace(first.understood, where=self._where)
        known = self._candidates()
        put_first = self.order if self._is_ranked else []
        by_passage = (topic_id(number) for id in put_first for number in self.passages[id].topics)
        ids = [id for id in dict.fromkeys((*by_passage, *known)) if id in known]
        visible = set([id for id in ids if known[id].shown][:shown])
        ranked = (placed(known[id], rank, shown=id in visible) for rank, id in enumerate(ids, start=1))
        return replace(first, understood=understood, candidates=tuple(ranked), seconds=round(self.seconds, 6))

    @property
    def absent(self) -> tuple[str, ...]:
        """The phrases that no passage contains."""
        return tuple(dict.fromkeys(each for found, _cost in self._found for each in found.event.understood.absent))

    @property
    def _where(self) -> Where:
        """The widest restriction of the searches for the question, beyond which nothing was found."""
        restrictions = [found.event.understood.where for found, cost in self._found if not cost]
        return min(restrictions, key=Where.parts, default=ANYWHERE)

    def _candidates(self) -> Mapping[str, Candidate]:
        """Each topic with its best score among all searches, best first; of equal ones, the first found."""
        best: dict[str, Candidate] = {}
        worth: dict[str, float] = {}
        for found, cost in self._found:
            for each in found.event.candidates:
                is_shown = each.shown or (each.id in best and best[each.id].shown)
                if each.fused - cost > worth.get(each.id, float("-inf")):
                    best[each.id], worth[each.id] = each, each.fused - cost
                best[each.id] = replace(best[each.id], shown=is_shown)
        return {id: best[id] for id in sorted(best, key=lambda id: -worth[id])}


def diverse(passages: Sequence[FoundPassage], share: float, most: int) -> list[int]:
    """Numbers of at most ``most`` passages, each of which is near the query and unlike those before it. Maximal
    marginal relevance (Carbonell and Goldstein 1998): ``share`` times the score, less the rest times the largest
    likeness to one taken already. Alike are passages that share stems (the cosine of their sets)."""
    words = {passage.id: frozenset(stems(passage.text)) for passage in passages}
    left, taken = list(passages), list[int]()
    likeness = dict.fromkeys(words, 0.0)
    while left and len(taken) < most:
        best = max(left, key=lambda each: share * each.score - (1 - share) * likeness[each.id])
        left.remove(best)
        taken.append(best.id)
        for each in left:
            one, other = words[each.id], words[best.id]
            alike = len(one & other) / max(math.sqrt(len(one) * len(other)), 1.0)
            likeness[each.id] = max(likeness[each.id], alike)
    return taken


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
    filters of the run itself apply to every search."""

    question: str
    prepared: PreparedSearch
    ports: Ports
    parameters: toolbox.ReactParameters
    pool: Pool = field(default_factory=Pool)
    widened: Where = ANYWHERE
    narrowed: Where = ANYWHERE

    def __post_init__(self) -> None:
        self.pool.seconds += self.prepared.seconds

    async def search(self, asked: toolbox.SearchInput, emit: Emit) -> toolbox.SearchOutput:
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
        return toolbox.SearchOutput(
            hits=tuple(
                toolbox.Hit(
                    id=passage.id,
                    score=passage.score,
                    snippet=one_line(passage.text[:_SNIPPET_CHARS]),
                    topics=tuple(map(topic_id, passage.topics)),
                )
                for passage in listed
            ),
            new=len(ids - known),
            by_meaning=sum(passage.cosine > 0 for passage in listed),
            by_words=sum(passage.bm25 > 0 for passage in listed),
            relaxed=relaxed,
        )

    async def _find(self, asked: toolbox.SearchInput, where: Where) -> list[FoundPassage]:
        """The results of all queries; those that arrived in time are in the pool even if a later one is late. The
        queries are searched concurrently, because each may wait for its vector, and join the pool in their order."""
        # As far as the parts of a score show it; ranks have weights of their own.
        weight = weights_of(asked.route)[0] if self.parameters.fusion == "zsum" else 1.0
        brought = list[FoundPassage]()
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

    async def _found(self, query: str, asked: toolbox.SearchInput, where: Where) -> Found:
        line = QueryEnriched(query, query, note="not_wanted", seconds=0.0)
        prepared = self.prepared if query == self.question else await self.ports.search(line)
        return await prepared.find(fusion=self._fusion(asked.route), passages=asked.k, where=where)

    def _fusion(self, route: toolbox.Route) -> Fusion:
        meaning, words = weights_of(route)
        if self.parameters.fusion == "rrf":
            return ReciprocalRanks(self.parameters.rrf_k, self.parameters.rank_depth, meaning, words)
        return Sum(meaning, words)

    def _diversify(self) -> None:
        if self.parameters.mmr == "on":
            passages = [self.pool.passages[id] for id in self.pool.order]
            taken = diverse(passages, self.parameters.mmr_lambda, self.parameters.mmr_hits)
            self.pool.keep(taken)
            self.pool.rank(taken)

    async def rerank(self, asked: toolbox.RerankInput, emit: Emit) -> toolbox.RerankOutput:
        """The first passages in the order of a second scoring; only a cross-encoder changes the order."""
        passages = [self.pool.passages[id] for id in asked.ids[: asked.top_n] if id in self.pool.passages]
        if not passages:
            raise toolbox.ToolFailed("no_such_passages")
        read = await self.ports.rerank_scores(asked.query, [passage.text for passage in passages])
        order = [passage.id for passage in passages]
        if read.by:
            order = self._reordered(passages, log_odds(np.array(read.scores, dtype=np.float64)))
            self.pool.rank(order)
        moved = sum(before.id != after for before, after in zip(passages, order, strict=True))
        by_id = dict(zip((passage.id for passage in passages), read.scores, strict=True))
        hits = tuple(toolbox.Rescored(id=id, score=round(by_id[id], 6)) for id in order)
        return toolbox.RerankOutput(hits=hits, by=read.by or "scorer", moved=moved, failure=read.failure)

    def _reordered(self, passages: Sequence[FoundPassage], second: Floats) -> list[int]:
        """The passages by both scorings, that of the search and the ``second``, shape (passages,)."""
        first = np.array([self.pool.worth[passage.id] for passage in passages])
        worth = z_scores(first, 1.0) + _CROSS_ENCODER * z_scores(second)
        return [passages[place].id for place in np.argsort(-worth, kind="stable").tolist()]

    async def fetch(self, asked: toolbox.FetchInput, emit: Emit) -> toolbox.FetchOutput:
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
        return toolbox.FetchOutput(
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


def is_flat(scores: Sequence[float], least: float) -> bool:
    """Whether the scores hardly differ, so that their order says little."""
    return len(scores) > 1 and float(np.std(scores)) < least
