"""Topics as they are and as a change would leave them, and what each order makes of a search.

The messages of the topics taken out get new places on paper; everything else stays. The new topics come last
where two are equally good, as they will when they have their numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from django.db import connection
from django.db.models.functions import Length
from numpy.typing import NDArray

from memoryapp.columns import Ids, int64s, positions
from memoryapp.curation.change import Change
from memoryapp.effect.verdict import Standing
from memoryapp.engine.context import WHOLE_TOPIC_CHARS
from memoryapp.engine.scoring import TopicPassages
from memoryapp.models import Message, Topic
from memoryapp.parameters import RANKED
from memoryapp.signals import Compared

HELD = """
SELECT string_agg(int8send(m.id), ''::bytea), string_agg(int8send(m.topic_id), ''::bytea),
       string_agg(int8send(coalesce(pm.passage_id, 0)), ''::bytea)
FROM memoryapp_message m LEFT JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
WHERE m.owner_id = %s AND m.topic_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Rank:
    """A ranked topic's place, from 1, and whether the model is shown it."""

    rank: int
    shown: bool


@dataclass(frozen=True, slots=True)
class Held:
    """Which messages stand in which passages: one row for each pair, and one for each message in no passage.

    ``places`` are positions among the passages compared, -1 for none; every array has shape (rows,).
    """

    messages: Ids
    places: NDArray[np.intp]
    topics: Ids


@dataclass(frozen=True, slots=True)
class Order:
    """One way to hold the messages: ``of`` says the topic of each (0: none), ``chars`` how long the topics are."""

    of: Mapping[int, int]
    chars: Mapping[int, int]
    passages: TopicPassages

    @classmethod
    def made(cls, rows: Held, topics: Ids, chars: Mapping[int, int]) -> Order:
        """The order in which each row of ``rows`` is of that one of ``topics``."""
        here = np.flatnonzero((rows.places >= 0) & (topics > 0))
        of = dict(zip(rows.messages.tolist(), topics.tolist(), strict=True))
        return cls(of, chars, TopicPassages.of(topics[here], rows.places[here]))

    def ranked(self, found: Compared, *, threshold: float, shown: int) -> dict[int, Rank]:
        """The first 200 topics of a search, of which the model is shown so many; as ``retrieval`` ranks them."""
        best = self.passages.best(found.fused, RANKED)
        relevant = found.relevant(threshold)[best.passages]
        is_shown = relevant & (np.cumsum(relevant) <= shown)
        told = enumerate(zip(best.topics.tolist(), is_shown.tolist(), strict=True), start=1)
        return {topic: Rank(rank, seen) for rank, (topic, seen) in told}

    def standing(self, messages: Collection[int], ranks: Mapping[int, Rank]) -> Standing:
        """Where ``messages`` stand in a search that ranked this order's topics so."""
        topics = [self.of.get(message, 0) for message in messages]
        places = [ranks.get(topic) for topic in topics]
        known = [place.rank for place in places if place]
        return Standing(
            messages=len(topics),
            rank=max(known) if known and len(known) == len(places) else None,
            shown=sum(place.shown for place in places if place),
            excerpted=sum(self.chars.get(topic, 0) > WHOLE_TOPIC_CHARS for topic in topics),
            chars=sum(self.chars.get(topic, 0) for topic in set(topics)),
        )


def held(owner_id: int, passages: Ids) -> Held:
    """The owner's archived messages, and where they stand in the ``passages``."""
    with connection.cursor() as cursor:
        cursor.execute(HELD, [owner_id])
        messages, topics, wanted = map(int64s, cursor.fetchone())
    places, known = positions(passages, wanted)
    held_at = np.full(len(wanted), -1, np.intp)
    held_at[known] = places
    return Held(messages, held_at, topics)


def orders(owner_id: int, rows: Held, change: Change) -> tuple[Order, Order]:
    """The topics today, and with the change made."""
    chars = dict(Topic.objects.of(owner_id).live().values_list("pk", "size_chars"))
    first = max(chars, default=0) + 1
    put = {message: number for number, draft in enumerate(change.put, first) for message in draft.messages}
    then = {**chars, **_sizes(owner_id, change.out, put)}
    return Order.made(rows, rows.topics, chars), Order.made(rows, _moved(rows, change.out, put), then)


def _moved(rows: Held, out: Collection[int], put: Mapping[int, int]) -> Ids:
    """The topic of each row once the messages of the topics taken ``out`` are ``put`` where they go."""
    topics = rows.topics.copy()
    for at in np.flatnonzero(np.isin(topics, list(out))).tolist():
        topics[at] = put.get(int(rows.messages[at]), 0)
    return topics


def _sizes(owner_id: int, out: Collection[int], put: Mapping[int, int]) -> dict[int, int]:
    """The characters of the new topics."""
    said = Message.objects.of(owner_id).filter(topic__in=out).values_list("pk", Length("text"))
    sizes: Counter[int] = Counter()
    for message, size in said:
        if message in put:
            sizes[put[message]] += size
    return dict(sizes)
