"""Which message is in which topic, today and after a change, and how a search ranks the topics of either.

Only messages of retired topics change their topic; nothing is written. Of equally good topics the new ones come last,
as they will when they have numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from django.db import connection
from django.db.models.functions import Length
from numpy.typing import NDArray

from memoryapp.curation.change import Change
from memoryapp.effect.verdict import Position
from memoryapp.engine.candidates import RANKED
from memoryapp.engine.context import WHOLE_TOPIC_CHARS
from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import Message, Topic
from memoryapp.search.columns import Ids, int64s, positions
from memoryapp.search.scores import ScoredTexts
from memoryapp.search.summaries import SummaryWords

MESSAGE_PASSAGES = """
SELECT string_agg(int8send(m.id), ''::bytea), string_agg(int8send(m.topic_id), ''::bytea),
       string_agg(int8send(coalesce(pm.passage_id, 0)), ''::bytea)
FROM memoryapp_message m LEFT JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
WHERE m.owner_id = %s AND m.topic_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank of a topic, from 1, whether the model is shown it, and the score beside it."""

    rank: int
    shown: bool
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class MessagePassages:
    """Which messages are in which passages: one row for each pair, and one for each message without a passage.

    ``places`` are positions among the compared passages, -1 for none; every array has shape (rows,).
    """

    messages: Ids
    places: NDArray[np.intp]
    topics: Ids


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which message is in which topic: ``of`` is the topic of each message (0: none), ``chars`` the lengths of the
    topics."""

    of: Mapping[int, int]
    chars: Mapping[int, int]
    passages: TopicPassages

    @classmethod
    def of_rows(cls, rows: MessagePassages, topics: Ids, chars: Mapping[int, int]) -> Assignment:
        """The assignment in which the topic of each row of ``rows`` is the one at that position in ``topics``."""
        here = np.flatnonzero((rows.places >= 0) & (topics > 0))
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
    """The owner's archived messages, and their positions among the ``passages``."""
    with connection.cursor() as cursor:
        cursor.execute(MESSAGE_PASSAGES, [owner_id])
        messages, topics, wanted = map(int64s, cursor.fetchone())
    places, known = positions(passages, wanted)
    at = np.full(len(wanted), -1, np.intp)
    at[known] = places
    return MessagePassages(messages, at, topics)


def assignments(owner_id: int, rows: MessagePassages, change: Change) -> tuple[Assignment, Assignment]:
    """Today's assignment, and the one after the change."""
    chars = dict(Topic.objects.of(owner_id).live().values_list("pk", "size_chars"))
    put = {message: number for number, draft in numbered(chars, change).items() for message in draft.messages}
    then = {**chars, **_sizes(owner_id, change.out, put)}
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


def _sizes(owner_id: int, out: Collection[int], put: Mapping[int, int]) -> dict[int, int]:
    """The number of characters of each new topic."""
    lengths = Message.objects.of(owner_id).filter(topic__in=out).values_list("pk", Length("text"))
    sizes: Counter[int] = Counter()
    for message, size in lengths:
        if message in put:
            sizes[put[message]] += size
    return dict(sizes)
