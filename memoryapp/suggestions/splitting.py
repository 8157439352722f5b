"""Finds topics that look like several: too long, about two subjects, or resumed after a long pause.

A cut is between two exchanges. The best cut explains most of the difference between the exchanges' vectors, as in
2-means with consecutive parts. The two parts are then compared with the usual nearness of different topics of this
memory, because no fixed number fits every embedding model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from django.conf import settings
from django.db import connection
from numpy.typing import NDArray

from memoryapp.effect import rescoring
from memoryapp.engine.text.lexical import Floats
from memoryapp.models import Topic
from memoryapp.search.columns import Ids, int64s

# The mean of fewer messages is not worth comparing; a topic that is too long is cut anyway.
LEAST_MESSAGES = 6
LONG_PAUSE = 3 * 86_400.0
_MOST_PARTS = 20
# How many messages' vectors are in memory at once.
_AT_ONCE = 4_000

MESSAGES = """
SELECT string_agg(int8send(id), ''::bytea), string_agg(float8send(at), ''::bytea),
       string_agg(int8send(size), ''::bytea), string_agg(int8send(passage), ''::bytea),
       string_agg(int8send(topic_id), ''::bytea)
FROM (
    SELECT m.id, m.topic_id, extract(epoch FROM m.sent_at)::float8 AS at, char_length(m.text)::bigint AS size,
           coalesce((SELECT min(pm.passage_id) FROM memoryapp_passagemessage pm WHERE pm.message_id = m.id), 0)
           AS passage
    FROM memoryapp_message m WHERE m.owner_id = %(owner)s AND m.topic_id = ANY(%(topics)s::bigint[])
    ORDER BY m.topic_id, m.sent_at, m.id
) ordered
"""
# Of some topics, those whose messages a merge put together exactly so; a new summary or an undo of an undo changes
# nothing about that.
MERGED = """
SELECT DISTINCT t.id
FROM memoryapp_topicedit e
JOIN memoryapp_editedtopic i ON i.edit_id = e.id AND i.side = 'in'
JOIN memoryapp_topic made ON made.id = i.topic_id
JOIN memoryapp_topicmessage was ON was.topic_id = made.id
JOIN memoryapp_topicmessage now ON now.message_id = was.message_id AND now.topic_id = ANY(%(topics)s::bigint[])
JOIN memoryapp_topic t ON t.id = now.topic_id AND t.message_count = made.message_count AND t.size_chars <= %(most)s
WHERE e.owner_id = %(owner)s AND e.kind = 'merge'
GROUP BY t.id, made.id, made.message_count HAVING count(*) = made.message_count
"""


@dataclass(frozen=True, slots=True)
class Split:
    """A topic, the messages ``at`` which new parts would begin, and the reasons.

    ``gain`` in [0, 1] is the share of the variance that the parts explain, ``similarity`` that of the two parts of the
    first cut, ``usual`` that of different topics; ``parts`` are messages and characters of each part.
    """

    topic: int
    score: float
    at: tuple[int, ...]
    size_chars: int
    gain: float
    similarity: float
    usual: float
    pause_seconds: float
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Nearness:
    """Cosines in this memory and profile: ``usual`` for two different topics, ``one_topic`` from which two are compared
    for a merge."""

    usual: float
    one_topic: float


@dataclass(frozen=True, slots=True)
class _TopicMessages:
    """The n messages of a topic in order; ``vectors`` has shape (n, dimensions), the other arrays (n,)."""

    ids: Ids
    at: Floats
    sizes: Ids
    passages: Ids
    vectors: Floats

    def part(self, start: int, end: int) -> _TopicMessages:
        cut = slice(start, end)
        return _TopicMessages(self.ids[cut], self.at[cut], self.sizes[cut], self.passages[cut], self.vectors[cut])

    def borders(self, least: int) -> NDArray[np.intp]:
        """Where a part may begin: not inside an exchange, and with at least ``least`` messages on either side."""
        begins = np.flatnonzero(np.diff(self.passages)) + 1
        return begins[(begins >= least) & (begins <= len(self.ids) - least)]


@dataclass(frozen=True, slots=True)
class _Cut:
    at: int
    gain: float
    similarity: float


def splits(owner_id: int, topics: Sequence[Topic], profile: int, near: Nearness, most: int) -> list[Split]:
    """The best ``most`` of ``topics`` to split, best first; none that a merge made within its bound."""
    merged = _merged(owner_id, topics)
    apart = [topic for topic in topics if topic.pk not in merged]
    found = (_split(topic, messages, near) for topic, messages in _messages_of(owner_id, apart, profile))
    return sorted((split for split in found if split), key=lambda split: (-split.score, split.topic))[:most]


def _merged(owner_id: int, topics: Sequence[Topic]) -> frozenset[int]:
    named = [topic.pk for topic in topics if _may_be_cut(topic)]
    with connection.cursor() as cursor:
        cursor.execute(MERGED, {"owner": owner_id, "topics": named, "most": settings.MAX_MERGED_SIZE_CHARS})
        return frozenset(number for (number,) in cursor.fetchall())


def _split(topic: Topic, messages: _TopicMessages, near: Nearness) -> Split | None:
    long = _is_long(topic)
    if topic.locked_by_hand and not long:
        # A person put it together or left it that way, knowing what it is about.
        return None
    cut = _best_cut(messages, messages.borders(1)) if long else _telling_cut(messages, near)
    if cut is None:
        return None
    at = _cuts(messages, cut) if long else [cut.at]
    borders = [0, *at, len(messages.ids)]
    return Split(
        topic=topic.pk,
        score=round(cut.gain + long * topic.size_chars / settings.SPLIT_THRESHOLD_CHARS, 4),
        at=tuple(int(messages.ids[place]) for place in at),
        size_chars=topic.size_chars,
        gain=round(cut.gain, 4),
        similarity=round(cut.similarity, 4),
        usual=round(near.usual, 4),
        pause_seconds=float(messages.at[cut.at] - messages.at[cut.at - 1]),
        parts=tuple((end - start, int(messages.sizes[start:end].sum())) for start, end in pairwise(borders)),
    )


def _telling_cut(messages: _TopicMessages, near: Nearness) -> _Cut | None:
    """The best cut if its parts differ as much as different topics, or one at a long pause between dissimilar parts."""
    borders = messages.borders(LEAST_MESSAGES)
    cut = _best_cut(messages, borders)
    if cut is None or cut.similarity < near.usual:
        return cut
    pauses = messages.at[borders] - messages.at[borders - 1]
    longest = int(np.argmax(pauses))
    at_pause = _best_cut(messages, borders[longest : longest + 1]) if pauses[longest] >= LONG_PAUSE else None
    unlike = at_pause and at_pause.similarity < near.one_topic
    return at_pause if unlike else None


def _best_cut(messages: _TopicMessages, at: NDArray[np.intp]) -> _Cut | None:
    """The cut among ``at`` that explains most; None when there is none."""
    if not len(at):
        return None
    n = len(messages.ids)
    sums = np.cumsum(messages.vectors, axis=0)
    left, whole = sums[at - 1], sums[-1]
    right = whole - left
    squares = (left**2).sum(axis=1), (right**2).sum(axis=1), float((whole**2).sum())
    differing = max(float((messages.vectors**2).sum()) - squares[2] / n, 1e-9)
    gains = (squares[0] / at + squares[1] / (n - at) - squares[2] / n) / differing
    best = int(np.argmax(gains))
    lengths = max(float(np.sqrt(squares[0][best] * squares[1][best])), 1e-9)
    return _Cut(int(at[best]), float(gains[best]), float(left[best] @ right[best]) / lengths)


def _cuts(messages: _TopicMessages, first: _Cut) -> list[int]:
    """The cuts, beginning with ``first``, that make each part short enough, as far as possible."""
    found = [first.at]
    while len(found) < _MOST_PARTS - 1:
        borders = [0, *sorted(found), len(messages.ids)]
        further = next(filter(None, (_cut_within(messages, start, end) for start, end in pairwise(borders))), None)
        if further is None:
            break
        found.append(further)
    return sorted(found)


def _cut_within(messages: _TopicMessages, start: int, end: int) -> int | None:
    part = messages.part(start, end)
    if part.sizes.sum() <= settings.SPLIT_THRESHOLD_CHARS:
        return None
    cut = _best_cut(part, part.borders(1))
    return start + cut.at if cut else None


def _messages_of(owner_id: int, topics: Sequence[Topic], profile: int) -> Iterator[tuple[Topic, _TopicMessages]]:
    for group in _groups(list(filter(_may_be_cut, topics))):
        with connection.cursor() as cursor:
            cursor.execute(MESSAGES, {"owner": owner_id, "topics": [topic.pk for topic in group]})
            ids, at, *numbers = cursor.fetchone()
        sizes, passages, topic_ids = map(int64s, numbers)
        times = np.frombuffer(at or b"", ">f8").astype(np.float64)
        group_messages = _TopicMessages(int64s(ids), times, sizes, passages, _vectors(owner_id, profile, passages))
        starts = np.searchsorted(topic_ids, [topic.pk for topic in group])
        ends = np.searchsorted(topic_ids, [topic.pk for topic in group], side="right")
        for topic, start, end in zip(group, starts.tolist(), ends.tolist(), strict=True):
            yield topic, group_messages.part(start, end)


def _may_be_cut(topic: Topic) -> bool:
    return _is_long(topic) or topic.message_count >= 2 * LEAST_MESSAGES


def _is_long(topic: Topic) -> bool:
    return topic.size_chars > settings.SPLIT_THRESHOLD_CHARS


def _groups(topics: Sequence[Topic]) -> Iterator[list[Topic]]:
    group: list[Topic] = []
    for topic in topics:
        if group and sum(each.message_count for each in group) + topic.message_count > _AT_ONCE:
            yield group
            group = []
        group.append(topic)
    if group:
        yield group


def _vectors(owner_id: int, profile: int, passages: Ids) -> Floats:
    """For each message the vector of its exchange, shape (messages, dimensions); zero where there is none."""
    known, vectors = rescoring.vectors_of(owner_id, profile, np.unique(passages))
    if not len(known):
        return np.zeros((len(passages), 1))
    order = np.argsort(known)
    known, vectors = known[order], vectors[order]
    places = np.minimum(np.searchsorted(known, passages), len(known) - 1)
    return np.where((known[places] == passages)[:, None], vectors[places], 0)
