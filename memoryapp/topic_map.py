"""A memory's topics as places on a plane: what lies near in meaning lies near on the page.

It is made anew for each look: two thousand topics take tens of milliseconds, less than keeping it right
would cost. Only the latest topics of a very large memory are placed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from memoryapp.engine.projection import plane
from memoryapp.models import ChatUser, Topic, TopicVector

MOST_TOPICS = 4_000

# The four bytes before the numbers tell their count; halves come in network order.
VECTORS = """
SELECT string_agg(int8send(topic_id), ''::bytea ORDER BY topic_id),
       string_agg(substr(halfvec_send(vector), 5), ''::bytea ORDER BY topic_id)
FROM (
    SELECT v.topic_id, v.vector FROM memoryapp_topicvector v
    JOIN memoryapp_topic t ON t.id = v.topic_id AND t.owner_id = %(owner)s AND t.is_live
    WHERE v.owner_id = %(owner)s AND v.profile_id = %(profile)s
    ORDER BY t.ended_at DESC, t.id DESC LIMIT %(most)s
) placed
"""


@dataclass(frozen=True, slots=True)
class Place:
    topic: Topic
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TopicMap:
    """``places``, the latest topic first; ``waiting`` live topics have no vector yet.

    ``left_out`` live topics are too many to place. ``shown`` is the share of the differences that two dimensions keep.
    """

    places: tuple[Place, ...]
    waiting: int
    left_out: int
    shown: float


def topic_map(owner: ChatUser) -> TopicMap:
    """The live topics by their vectors in the newest profile that has any; four queries."""
    ids, vectors = _vectors(owner)
    placed, shown = plane(vectors)
    where = dict(zip(ids, placed.tolist(), strict=True))
    topics = Topic.objects.of(owner).filter(pk__in=ids).order_by("-ended_at", "-pk")
    places = tuple(Place(topic, *where[topic.pk]) for topic in topics)
    live = Topic.objects.of(owner).live()
    with_vector = TopicVector.objects.filter(owner=owner, topic__is_live=True).values("topic").distinct().count()
    return TopicMap(places, live.count() - with_vector, max(0, with_vector - len(places)), shown)


def _vectors(owner: ChatUser) -> tuple[list[int], NDArray[np.float32]]:
    newest = TopicVector.objects.filter(owner=owner).order_by("-profile").values_list("profile").first()
    if newest is None:
        return [], np.zeros((0, 0), np.float32)
    with connection.cursor() as cursor:
        cursor.execute(VECTORS, {"owner": owner.pk, "profile": newest[0], "most": MOST_TOPICS})
        numbers, halves = cursor.fetchone()
    ids = np.frombuffer(numbers or b"", ">i8").tolist()
    values = np.frombuffer(halves or b"", ">f2").astype(np.float32)
    return ids, values.reshape(len(ids), -1) if ids else np.zeros((0, 0), np.float32)
