"""Restricts a search to the messages that ``Where`` permits.

A passage is found when one of its messages is permitted, and then only those are read from it. The statement is part of
the round trip that compares, and is sent only when something is set. Scores are always those of the whole memory; a
passage that is not permitted is only left out of the order."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from memoryapp.engine.beside import table_beside
from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import AtHand, Where
from memoryapp.engine.text.lexical import fold_phrase
from memoryapp.memory.content import permitted
from memoryapp.memory.past import LIVE_AT_SQL
from memoryapp.platform.database import SqlRead, array
from memoryapp.search.columns import Ids, int64s, positions
from memoryapp.search.memory_index import MemoryIndex

_SQL = table_beside(__file__)
PAIRS: str = _SQL["pairs"]
PAIRS_AS_OF: str = _SQL["pairs_as_of"].format(live_at_sql=LIVE_AT_SQL)
PHRASES: str = _SQL["phrases"]
AT_HAND: str = _SQL["at_hand"]


@dataclass(frozen=True, slots=True)
class PermittedMessages:
    """The messages that a filter permits, one row for each passage of each: its topic (0 for none), the passage, the
    message; all of shape (rows,)."""

    topics: Ids
    passages: Ids
    messages: Ids


@dataclass(frozen=True, slots=True)
class Permitted:
    """What ``where`` permits; ``messages`` is None when no filter is set."""

    where: Where
    messages: PermittedMessages | None


def permitted_read(owner_id: int, where: Where) -> SqlRead[Permitted]:
    """Reads the permitted messages, if a filter is set."""
    if not (where.has_filters or where.as_of):
        return SqlRead(None, lambda _rows: Permitted(where, None))
    conditions, values = permitted(where)
    pairs = PAIRS_AS_OF if where.as_of else PAIRS
    statement = pairs.format(conditions=conditions), {"owner": owner_id, "as_of": where.as_of, **values}
    return SqlRead(statement, lambda rows: Permitted(where, PermittedMessages(*map(int64s, rows[0]))))


def phrases_read(owner_id: int, where: Where) -> SqlRead[Mapping[str, Ids]]:
    """Reads the passages that contain each phrase of ``where``, if there are any."""
    phrases = list(dict.fromkeys((*where.must_phrases, *where.should_phrases)))
    values = {"owner": owner_id, "phrases": [fold_phrase(each) for each in phrases]}
    return SqlRead(
        (PHRASES, values) if phrases else None,
        lambda rows: {phrase: int64s(ids) for phrase, (ids,) in zip(phrases, rows, strict=True)},
    )


def with_phrases(index: MemoryIndex, topics: TopicPassages, must: Sequence[Ids]) -> TopicPassages:
    """The topics that hold a passage of each of these, with those passages alone."""
    if not must:
        return topics
    holding = [topics.only(positions(index.passages.ids, ids)[0]) for ids in must]
    within = holding[0].topics
    for each in holding[1:]:
        within = np.intersect1d(within, each.topics)
    places = np.concatenate([each.places for each in holding])
    return topics.only(places).but(np.setdiff1d(topics.topics, within).tolist())


def at_hand_read(owner_id: int, query: str, known: AtHand) -> SqlRead[frozenset[int]]:
    """Reads which messages of active sessions the caller has at hand, by number or by text; the query is one of these
    texts, because clients store it before they ask."""
    stripped = (storable(text).strip() for text in (query, *known.texts))
    texts = list(dict.fromkeys(filter(None, stripped)))
    values = {"owner": owner_id, "ids": array(known.messages), "texts": texts}
    return SqlRead((AT_HAND, values), lambda rows: frozenset(number for (number,) in rows))


def topics_to_search(
    index: MemoryIndex, permitted: Permitted, at_hand: AbstractSet[int], *, fresh: bool
) -> TopicPassages:
    """The topics and active sessions that may be found, each with those of its passages that contain a permitted
    message of it; of active sessions only what is not ``at_hand``, and without ``fresh`` nothing."""
    topics = _permitted_topics(index, permitted)
    hidden = index.active_within(at_hand) if fresh else list(index.active_passages)
    return topics.without(positions(index.passages.ids, np.array(hidden, np.int64))[0]) if hidden else topics


def _permitted_topics(index: MemoryIndex, permitted: Permitted) -> TopicPassages:
    found = permitted.messages
    if found is None:
        return index.topics.but(permitted.where.never_topics)
    sessions, of_topics = index.active.session_of, found.topics.copy()
    in_session = np.flatnonzero(of_topics == 0)
    of_topics[in_session] = [sessions.get(number, 0) for number in found.messages[in_session].tolist()]
    known = of_topics != 0
    places, here = positions(index.passages.ids, found.passages[known])
    return TopicPassages.of(of_topics[known][here], places)
