"""Vectors for what has none yet.

What is missing is read from the rows, so a worker that was killed is simply followed by the next one,
and two at once do the work twice but store it once. Passages are what search compares; a topic's vector,
the unit mean of its passages and its summary, serves neighbours, maps and consolidation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet
from numpy.typing import NDArray

from memoryapp.engine.embeddings import Embedder, EmbeddingError, Profile, Vectors
from memoryapp.models import ChatUser, EmbeddingProfile, Passage, PassageVector, Topic, TopicVector
from memoryapp.models.user import Owned

BATCH = 256

Row = TypeVar("Row", bound=Owned)

# A passage with several messages of the topic counts once.
PASSAGE_MEANS = """
SELECT topic_id, avg(vector)::real[], count(*)
FROM (
    SELECT DISTINCT ON (m.topic_id, pv.passage_id) m.topic_id, pv.vector
    FROM memoryapp_message m
    JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
    JOIN memoryapp_passagevector pv ON pv.passage_id = pm.passage_id AND pv.profile_id = %s
    WHERE m.topic_id = ANY(%s)
) held
GROUP BY topic_id
"""


@dataclass(frozen=True, slots=True)
class _Mean:
    """The mean of a topic's passage vectors, and of how many."""

    vector: NDArray[np.float64]
    count: int


async def profile_row(profile: Profile) -> EmbeddingProfile:
    """The row of ``profile``, made on its first use."""
    row, _made = await EmbeddingProfile.objects.aget_or_create(
        provider=profile.provider,
        model=profile.model,
        dimensions=profile.dimensions,
        defaults={"threshold": profile.threshold},
    )
    return row


async def embed_pending(embedder: Embedder, owner: ChatUser | None = None, batch: int = BATCH) -> int:
    """Makes the missing vectors in the embedder's profile, of one owner or of all; returns how many.

    Raises EmbeddingError; what was made before it stays.
    """
    row = await profile_row(embedder.profile)
    made = await _embed_passages(embedder, row, owner, batch)
    return made + await _embed_topics(embedder, row, owner, batch)


async def _embed_passages(embedder: Embedder, row: EmbeddingProfile, owner: ChatUser | None, batch: int) -> int:
    made = last = 0
    while passages := await sync_to_async(_passages_without)(row, owner, last, batch):
        vectors = await _embed(embedder, [passage.text for passage in passages])
        made += await sync_to_async(_store_passages)(row, passages, vectors)
        last = passages[-1].pk
    return made


async def _embed_topics(embedder: Embedder, row: EmbeddingProfile, owner: ChatUser | None, batch: int) -> int:
    made = last = 0
    while topics := await sync_to_async(_topics_without)(row, owner, last, batch):
        summaries = await _embed(embedder, [topic.summary for topic in topics])
        means = await sync_to_async(_passage_means)(row, topics)
        vectors = [_joined(means.get(topic.pk), summary) for topic, summary in zip(topics, summaries, strict=True)]
        made += await sync_to_async(_store_topics)(row, topics, vectors)
        last = topics[-1].pk
    return made


async def _embed(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    vectors = await embedder.embed(texts)
    if vectors.shape != (len(texts), embedder.profile.dimensions):
        raise EmbeddingError(f"{len(texts)} texts came back as vectors of shape {vectors.shape}.")
    return vectors


def _passages_without(row: EmbeddingProfile, owner: ChatUser | None, last: int, most: int) -> list[Passage]:
    vectors = PassageVector.objects.filter(passage=OuterRef("pk"), profile=row)
    passages = Passage.objects.filter(~Exists(vectors), pk__gt=last)
    return list(_of(passages, owner).only("id", "owner_id", "text").order_by("pk")[:most])


def _topics_without(row: EmbeddingProfile, owner: ChatUser | None, last: int, most: int) -> list[Topic]:
    vectors = TopicVector.objects.filter(topic=OuterRef("pk"), profile=row)
    topics = Topic.objects.live().filter(~Exists(vectors), pk__gt=last)
    return list(_of(topics, owner).only("id", "owner_id", "summary").order_by("pk")[:most])


def _of(rows: QuerySet[Row], owner: ChatUser | None) -> QuerySet[Row]:
    return rows if owner is None else rows.filter(owner=owner)


def _passage_means(row: EmbeddingProfile, topics: Sequence[Topic]) -> dict[int, _Mean]:
    with connection.cursor() as cursor:
        cursor.execute(PASSAGE_MEANS, [row.pk, [topic.pk for topic in topics]])
        return {topic: _Mean(np.array(vector), count) for topic, vector, count in cursor.fetchall()}


def _joined(mean: _Mean | None, summary: NDArray[np.float32]) -> NDArray[np.float64]:
    total = summary.astype(np.float64) if mean is None else mean.vector * mean.count + summary
    length = np.linalg.norm(total)
    # Vectors that cancel out leave no direction; the summary alone has one.
    return total / length if length > 1e-6 else summary.astype(np.float64)


@transaction.atomic
def _store_passages(row: EmbeddingProfile, passages: Sequence[Passage], vectors: Vectors) -> int:
    # Held, so that a chat user who is erased meanwhile takes no batch of somebody else's down.
    here = set(_held(Passage.objects.filter(pk__in=[passage.pk for passage in passages])))
    made = [
        PassageVector(owner_id=passage.owner_id, passage=passage, profile=row, dimensions=row.dimensions, vector=vector)
        for passage, vector in zip(passages, vectors, strict=True)
        if passage.pk in here
    ]
    return len(PassageVector.objects.bulk_create(made, ignore_conflicts=True))


@transaction.atomic
def _store_topics(row: EmbeddingProfile, topics: Sequence[Topic], vectors: Sequence[NDArray[np.float64]]) -> int:
    here = set(_held(Topic.objects.filter(pk__in=[topic.pk for topic in topics])))
    made = [
        TopicVector(owner_id=topic.owner_id, topic=topic, profile=row, vector=vector)
        for topic, vector in zip(topics, vectors, strict=True)
        if topic.pk in here
    ]
    return len(TopicVector.objects.bulk_create(made, ignore_conflicts=True))


def _held(rows: QuerySet[Row]) -> QuerySet[Row, int]:
    return rows.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True)
