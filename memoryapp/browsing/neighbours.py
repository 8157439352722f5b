"""The live topics that are nearest in meaning to a topic, to a vector, or to parts of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from django.db import connection
from django.db.models import QuerySet, Subquery
from pgvector.django import CosineDistance

from memoryapp.engine.embeddings import Profile
from memoryapp.models import ChatUser, Topic, TopicVector

# A passage with several messages of a part counts once.
NEAREST_TO_PARTS = """
WITH profile AS (
    SELECT id FROM memoryapp_embeddingprofile
    WHERE (provider, model, dimensions, query_prefix, passage_prefix) = (%s, %s, %s, %s, %s)
), part_passage AS (
    SELECT DISTINCT part_message.place, pm.passage_id
    FROM unnest(%s::bigint[], %s::int[]) AS part_message (message_id, place)
    JOIN memoryapp_passagemessage pm ON pm.message_id = part_message.message_id
), part AS (
    SELECT part_passage.place, avg(pv.vector) AS vector
    FROM part_passage
    JOIN memoryapp_passagevector pv ON pv.passage_id = part_passage.passage_id AND pv.owner_id = %s
    JOIN profile ON pv.profile_id = profile.id
    GROUP BY part_passage.place
)
SELECT part.place, near.topic_id, 1 - near.distance
FROM part
CROSS JOIN LATERAL (
    SELECT tv.topic_id, tv.vector <=> part.vector AS distance
    FROM memoryapp_topicvector tv
    JOIN profile ON tv.profile_id = profile.id
    JOIN memoryapp_topic t ON t.id = tv.topic_id AND t.is_live
    WHERE tv.owner_id = %s AND tv.topic_id <> %s
    ORDER BY distance, tv.topic_id
    LIMIT %s
) near
ORDER BY part.place, near.distance, near.topic_id
"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A live topic of the same chat user; ``similarity`` is cosine in [-1, 1]."""

    topic: Topic
    similarity: float


def neighbours(topic: Topic, most: int = 6) -> list[Neighbour]:
    """The nearest live topics by vector, nearest first; none while the topic has no vector."""
    own = TopicVector.objects.filter(owner=topic.owner_id, topic=topic).order_by("-profile__is_serving", "-profile")
    near = TopicVector.objects.filter(
        owner=topic.owner_id, profile=Subquery(own.values("profile")[:1]), topic__is_live=True
    ).exclude(topic=topic)
    near = near.annotate(distance=CosineDistance("vector", Subquery(own.values("vector")[:1])))
    rows = near.order_by("distance", "topic").defer("vector").select_related("topic")[:most]
    return [Neighbour(row.topic, 1 - row.distance) for row in rows if row.distance is not None]


def vectors_of_profile(owner: ChatUser | int, profile: Profile) -> QuerySet[TopicVector]:
    named = {f"profile__{name}": value for name, value in profile.identity.items()}
    return TopicVector.objects.filter(owner=owner, **named)


def nearest(owner: ChatUser, vector: Sequence[float], profile: Profile, most: int = 12) -> list[Neighbour]:
    """The owner's live topics nearest to a vector of the profile, nearest first."""
    rows = vectors_of_profile(owner, profile).filter(topic__is_live=True)
    rows = rows.annotate(distance=CosineDistance("vector", list(vector))).order_by("distance", "topic")
    rows = rows.defer("vector").select_related("topic")[:most]
    return [Neighbour(row.topic, 1 - row.distance) for row in rows if row.distance is not None]


def nearest_to_parts(
    topic: Topic, parts: Sequence[Sequence[int]], profile: Profile, most: int = 3
) -> list[list[Neighbour]]:
    """For each part, given as ids of its messages, the nearest live topics except ``topic``, nearest first.

    The vector of a part is the mean of its passages; without vectors it has no neighbours. Two queries for all parts.
    """
    messages = [number for part in parts for number in part]
    places = [place for place, part in enumerate(parts) for _number in part]
    named = profile.identity.values()
    with connection.cursor() as cursor:
        cursor.execute(NEAREST_TO_PARTS, (*named, messages, places, topic.owner_id, topic.owner_id, topic.pk, most))
        rows = [row for row in cursor.fetchall() if isfinite(row[2])]
    topics = Topic.objects.of(topic.owner_id).in_bulk({pk for _place, pk, _similarity in rows})
    near: list[list[Neighbour]] = [[] for _part in parts]
    for place, pk, similarity in rows:
        near[place].append(Neighbour(topics[pk], similarity))
    return near
