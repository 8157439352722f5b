"""Compares the queries of many past runs with one memory at once.

Passages do not change with topics, so they are compared once for all orders of topics that are tried. The database
returns the vectors and the positions of each word of any query. The rest is computed like in every search
(``scores.scored``), so that the result is the same as that of a real search."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models.functions import Length
from numpy.typing import NDArray

from memoryapp.curation.change import Change
from memoryapp.curation.effect_verdict import Position
from memoryapp.engine.beside import table_beside
from memoryapp.engine.candidates import RANKED
from memoryapp.engine.context import WHOLE_TOPIC_CHARS
from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.memory import TopicDraft
from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import Floats, Matches, fold, fold_query, is_wide
from memoryapp.memory import sessions
from memoryapp.memory.sessions import ActiveTalk
from memoryapp.models import Message, Topic
from memoryapp.platform.statements import fetched
from memoryapp.search import similarity
from memoryapp.search.columns import Ids, int64s, positions
from memoryapp.search.memory_index import MESSAGES, MESSAGES_OF, PASSAGES, Messages, MessagesInPassages, Passages
from memoryapp.search.scores import (
    MatchedTexts,
    PassageOrigins,
    ScoredTexts,
    SummaryWords,
    better,
    instructions_read,
    lifts,
    scored,
)
from memoryapp.search.words import QUERY_CHARS, folded, holding, matches_in, one_term_each

CHUNK = 2_000
# A cosine from the database is a sum of single floats; its further digits are noise and would separate equal texts.
_DIGITS = 9

_SQL = table_beside(__file__)
VECTORS: str = _SQL["vectors"]
TERMS: str = _SQL["terms"]
COUNTS: str = _SQL["counts"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query as the search saw it; ``vector`` has shape (dimensions,) in the profile; with None only words are
    compared. ``typed`` is the query as it was typed, if that was searched as well."""

    text: str
    vector: Floats | None = None
    profile_id: int = 0
    typed: Query | None = None

    @property
    def wordings(self) -> tuple[Query, ...]:
        return (self.typed, self) if self.typed else (self,)


def passages(owner_id: int) -> Passages:
    (columns,) = fetched(PASSAGES, {"owner": owner_id})
    return Passages.of(*columns)


@dataclass(frozen=True, slots=True)
class RescoredQuery:
    """The owner's passages compared with a query, and the ``common`` terms that a search leaves out."""

    found: ScoredTexts
    common: Collection[str]


def compared(owner_id: int, passages: Passages, queries: Sequence[Query]) -> Iterator[ScoredTexts]:
    """The owner's passages compared with each query, in the order of the queries."""
    return (each.found for each in rescored(owner_id, passages, queries, stems_of(queries)))


def rescored(
    owner_id: int, passages: Passages, queries: Sequence[Query], stems: Sequence[Sequence[str]]
) -> Iterator[RescoredQuery]:
    """Each query compared with the owner's passages, in the order of the queries. ``stems`` are those of ``stems_of``.
    A few statements, and one pass over the vectors, however many queries there are."""
    wordings = [query.wordings for query in queries]
    found = _compared(owner_id, passages, wordings, stems)
    for each in wordings:
        compared, common = zip(*(next(found) for _wording in each), strict=True)
        yield RescoredQuery(better(*compared), common[0])


def _compared(
    owner_id: int, passages: Passages, asked: Sequence[Sequence[Query]], terms: Sequence[Sequence[str]]
) -> Iterator[tuple[ScoredTexts, Collection[str]]]:
    """The passages compared with all wordings of the first query in ``asked``, then with those of the next, each with
    the query's common terms."""
    queries = [wording for wordings in asked for wording in wordings]
    cosines = _cosines(owner_id, passages.ids, queries)
    matches = term_matches(owner_id, passages.ids, terms)
    found = _found(asked, terms, matches, len(passages.ids))
    (messages,), (pairs,) = (fetched(statement, {"owner": owner_id}) for statement in (MESSAGES, MESSAGES_OF))
    known = Messages.of(messages).joined(Messages.of_talk(active_talk(owner_id)))
    origins = MessagesInPassages.of(passages.ids, known, (int64s(pairs[0]), int64s(pairs[1]))).origins()
    instructions = _instructions(owner_id, queries, origins)
    for query, cosine, (one_term, common) in zip(queries, cosines, found, strict=True):
        nobody = np.zeros(len(passages.ids), np.int64)
        texts = MatchedTexts(passages.ids, nobody, passages.lengths, passages.wide, cosine, one_term, common)
        lifted = lifts(bare(query.text), origins, passages.ids, instructions)
        yield scored(texts, is_wide(query.text), lifted=lifted), common


def active_talk(owner_id: int) -> ActiveTalk:
    """The active sessions, whose messages count like others."""
    (bounds,) = fetched(sessions.BOUNDS, {"owner": owner_id}) or [(None, None)]
    return ActiveTalk.of(fetched(sessions.MESSAGES, {"owner": owner_id}), sessions.limited(*bounds))


def _found(
    asked: Sequence[Sequence[Query]], terms: Sequence[Sequence[str]], matches: Mapping[str, Matches | None], n: int
) -> Iterator[tuple[Mapping[str, Matches | None], Mapping[str, int]]]:
    """For each wording, what a search in ``n`` passages finds, and the estimated frequency of its common words."""
    each = iter(terms)
    for wordings in asked:
        of_wordings = [{term: matches.get(term) for term in next(each)} for _wording in wordings]
        found, common = similarity.sought({term: m for each_of in of_wordings for term, m in each_of.items()}, n)
        for wanted in of_wordings:
            yield one_term_each({term: found[term] for term in wanted}), common.terms


def _instructions(owner_id: int, queries: Sequence[Query], origins: PassageOrigins) -> Ids:
    """The passages with standing instructions, if any of the queries asks for something to be made."""
    asked = instructions_read(owner_id, [query.text for query in queries], origins)
    return asked.meaning(fetched(*asked.statement) if asked.statement else [])


def vector_of(sent: bytes | memoryview) -> Floats:
    """A vector as ``halfvec_send`` wrote it, shape (dimensions,)."""
    vector: Floats = halves(sent, 1)[0]
    return vector


def _cosines(owner_id: int, ids: Ids, queries: Sequence[Query]) -> Floats:
    """Shape (queries, passages), NaN where either has no vector."""
    cosines = np.full((len(queries), len(ids)), np.nan)
    asked: dict[int, dict[int, Floats]] = defaultdict(dict)
    for place, query in enumerate(queries):
        if query.vector is not None:
            asked[query.profile_id][place] = query.vector
    for profile, vectors in asked.items():
        rows, compared = np.array(list(vectors)), np.stack(list(vectors.values()))
        for start in range(0, len(ids), CHUNK):
            known, vectors_here = vectors_of(owner_id, profile, ids[start : start + CHUNK])
            if len(known):
                cosines[rows[:, None], np.searchsorted(ids, known)] = np.round(compared @ vectors_here.T, _DIGITS)
    return cosines


def vectors_of(owner_id: int, profile: int, ids: Ids) -> tuple[Ids, Floats]:
    """Returns the ids of the passages that have a vector, and the vectors, shape (passages, dimensions)."""
    values = {"owner": owner_id, "profile": profile, "passages": ids.tolist()}
    ((known, sent),) = fetched(VECTORS, values)
    found = int64s(known)
    return found, halves(sent or b"", len(found))


def halves(sent: bytes | memoryview, count: int) -> Floats:
    """Vectors that ``halfvec_send`` wrote one after the other, shape (count, dimensions). Each consists of its length,
    two unused bytes, and its half floats."""
    if not count:
        return np.zeros((0, 0))
    return np.frombuffer(sent, ">f2").reshape(count, -1)[:, 2:].astype(np.float64)


def terms_of(queries: Sequence[str]) -> list[list[str]]:
    """The stems of each text, as passages hold them."""
    return _stems([fold_query(bare(query)[:QUERY_CHARS]) for query in queries])


def stems_of(queries: Sequence[Query]) -> list[list[str]]:
    """The stems of each wording of each query, as a search looks for them."""
    return _stems([folded(bare(wording.text)) for query in queries for wording in query.wordings])


def _stems(folded_texts: Sequence[str]) -> list[list[str]]:
    return [terms for (terms,) in fetched(TERMS, {"queries": list(folded_texts)})]


def term_matches(owner_id: int, ids: Ids, terms: Sequence[Sequence[str]]) -> dict[str, Matches | None]:
    """For each term, the positions of the owner's passages ``ids`` that contain it; all in one statement."""
    wanted = sorted({term for each in terms for term in each})
    rows = fetched(COUNTS, {"owner": owner_id, "terms": wanted}) if wanted else []
    return {term: matches_in(ids, passages, counts) for term, passages, counts in rows}


# Which message is in which topic, today and after a change, and how a search ranks the topics of either.
#
# Only messages of retired topics change their topic; nothing is written. Of equally good topics the new ones come
# last, as they will when they have numbers.

MESSAGE_PASSAGES: str = _SQL["message_passages"]


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank of a topic, from 1, whether the model is shown it, and the score beside it."""

    rank: int
    shown: bool
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class MessagePassages:
    """Which messages are in which passages: one row for each pair, and one for each message without a passage.
    ``places`` are positions among the compared passages, -1 for none; every array has shape (rows,)."""

    messages: Ids
    places: NDArray[np.intp]
    topics: Ids


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which message is in which topic: ``of`` each message (0: none); ``chars`` are the lengths of the topics."""

    of: Mapping[int, int]
    chars: Mapping[int, int]
    passages: TopicPassages

    @classmethod
    def of_rows(cls, rows: MessagePassages, topics: Ids, chars: Mapping[int, int]) -> Assignment:
        """The assignment in which the topic of each row of ``rows`` is the one at that position in ``topics``."""
        here = np.flatnonzero((rows.places >= 0) & (topics != 0))
        owner = dict(zip(rows.messages.tolist(), topics.tolist(), strict=True))
        return cls(owner, chars, TopicPassages.of(topics[here], rows.places[here]))

    def ranked(self, found: ScoredTexts, summaries: SummaryWords, *, threshold: float, shown: int) -> dict[int, Rank]:
        """The first 200 topics of a search and how many of them the model is shown, as ``retrieval`` ranks them, except
        that a text in several topics counts in each."""
        best = self.passages.best(found.fused, RANKED, found.topic_lifts(self.passages, summaries))
        relevant = found.relevant(threshold)[best.passages] | summaries.speak(best.topics)
        is_shown = relevant & (np.cumsum(relevant) <= shown)
        scores = found.numbers(best.passages, best.lifts).score
        ranked = enumerate(zip(best.topics.tolist(), is_shown.tolist(), scores, strict=True), start=1)
        return {topic: Rank(rank, shown, score) for rank, (topic, shown, score) in ranked}

    def standing(self, messages: Collection[int], ranks: Mapping[int, Rank]) -> Position:
        """The standing of ``messages`` in a search with this order of topics."""
        topics = [self.of.get(message, 0) for message in messages]
        places = [ranks.get(topic) for topic in topics]
        known = [place.rank for place in places if place]
        return Position(
            messages=len(topics),
            rank=max(known) if known and len(known) == len(places) else None,
            shown=sum(place.shown for place in places if place),
            excerpted=sum(self.chars.get(topic, 0) > WHOLE_TOPIC_CHARS for topic in topics),
            chars=sum(self.chars.get(topic, 0) for topic in set(topics)),
        )


def message_passages(owner_id: int, passages: Ids) -> MessagePassages:
    """The owner's messages, those of active sessions in topic 0, and their positions among the ``passages``."""
    messages, topics, wanted = map(int64s, fetched(MESSAGE_PASSAGES, [owner_id])[0])
    places, known = positions(passages, wanted)
    at = np.full(len(wanted), -1, np.intp)
    at[known] = places
    return MessagePassages(messages, at, topics)


def assignments(owner_id: int, rows: MessagePassages, change: Change) -> tuple[Assignment, Assignment]:
    chars = dict(Topic.objects.of(owner_id).live().values_list("pk", "size_chars"))
    put = {message: number for number, draft in numbered(chars, change).items() for message in draft.messages}
    then = {**chars, **_sizes(owner_id, put)}
    return Assignment.of_rows(rows, rows.topics, chars), Assignment.of_rows(rows, _moved(rows, change.out, put), then)


def numbered(live: Collection[int], change: Change) -> dict[int, TopicDraft]:
    """Returns the drafts of the change by provisional numbers, which follow those of the ``live`` topics."""
    return dict(enumerate(change.put, max(live, default=0) + 1))


def _moved(rows: MessagePassages, out: Collection[int], put: Mapping[int, int]) -> Ids:
    """The topic of each row after the messages of the retired topics ``out`` are moved to the topics ``put``."""
    topics = rows.topics.copy()
    for at in np.flatnonzero(np.isin(topics, list(out))).tolist():
        topics[at] = put.get(int(rows.messages[at]), 0)
    return topics


def _sizes(owner_id: int, put: Mapping[int, int]) -> dict[int, int]:
    """The number of characters of each new topic."""
    sizes: Counter[int] = Counter()
    for message, size in Message.objects.of(owner_id).filter(pk__in=put).values_list("pk", Length("text")):
        sizes[put[message]] += size
    return dict(sizes)


# Finds the words of past runs' queries in the summaries of today's topics and of those that a change puts in.

HOLDING: str = _SQL["holding"]


@dataclass(frozen=True, slots=True)
class QuerySummaries:
    """The words of each wording of one query, and the topics whose summaries contain each word."""

    wordings: Sequence[Sequence[str]]
    holders: Mapping[str, Ids]

    def words(self, topics: Ids, common: Collection[str]) -> SummaryWords:
        """Returns the words of the query in the summaries of these ascending ``topics``, as in a search."""
        matches = [
            {word: holding(topics, self.holders[word]) if word in self.holders else None for word in wording}
            for wording in self.wordings
        ]
        return SummaryWords.of(topics, matches, common)


def summaries_for(
    owner_id: int, queries: Sequence[Query], stems: Sequence[Sequence[str]], put: Mapping[int, str]
) -> list[QuerySummaries]:
    """Returns for each query which summaries contain its words: those of live topics, and those to be ``put`` in.
    ``stems`` are those of ``rescoring.stems_of``; ``put`` contains the new summaries by number."""
    each = iter(stems)
    wordings = [[next(each) for _wording in query.wordings] for query in queries]
    terms = sorted({word for wording in stems for word in wording})
    values: dict[str, Any] = {"owner": owner_id, "new": [*put], "summaries": [*map(fold, put.values())], "terms": terms}
    holders = {lexeme: int64s(ids) for lexeme, ids in fetched(HOLDING, values)}
    return [QuerySummaries(of_query, holders) for of_query in wordings]
