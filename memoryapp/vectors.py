"""Vectors for what has none yet.

What is missing is read from the rows, so a worker that was killed is simply followed by the next one; one
works at a time, for vectors cost money. A text that the model refuses holds nobody up. Passages are what
search compares, and cards, which are made or renewed here first; a topic's vector, the unit mean of its passages
and its summary, serves neighbours, maps and consolidation.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import numpy as np
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, QuerySet
from numpy.typing import NDArray

from memoryapp import advisory, cards, metrics, work
from memoryapp.engine.embeddings import Embedder, EmbeddingError, Profile, Vectors
from memoryapp.logs import cause
from memoryapp.models import (
    Card,
    CardVector,
    ChatUser,
    EmbeddingProfile,
    Passage,
    PassageVector,
    Topic,
    TopicVector,
    Work,
)
from memoryapp.models.user import Owned

BATCH = 256
# A text no model refuses: if it is, the fault is not a text's.
HARMLESS = "ok"

logger = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class _Task:
    """Vectors of one profile for one owner's rows or for everybody's; ``refused`` says why, once a text."""

    embedder: Embedder
    row: EmbeddingProfile
    owner: ChatUser | None
    batch: int
    worker: str
    report: work.Report
    refused: list[str] = field(default_factory=list)


async def embed_pending(
    embedder: Embedder,
    owner: ChatUser | None = None,
    batch: int = BATCH,
    *,
    wait: timedelta = timedelta(0),
    meanwhile: Callable[[], None] = lambda: None,
    worker: str = work.WORKER,
    report: work.Report = lambda shown: None,
) -> int:
    """Makes the missing vectors in the embedder's profile, of one owner or of all; returns how many.

    One worker a profile: if another is at it, this one waits up to ``wait``, calling ``meanwhile``, then leaves the
    work to that one and returns 0. A text that the model refuses is left out and logged. Raises EmbeddingError when
    it refuses any text; what was made before it stays. Cards are up to date in any case. How far the passages of
    each owner are stands in a row of work, and goes to ``report``.
    """
    await sync_to_async(cards.refresh)(owner)
    task = _Task(embedder, await profile_row(embedder.profile), owner, batch, worker, report)
    async with _only_worker(task.row, wait, meanwhile) as alone:
        if not alone:
            return 0
        made = await _embed_passages(task) + await _embed_cards(task) + await _embed_topics(task)
    if task.refused:
        why = cause(task.refused[0])
        logger.warning("Texts without a vector, for the model refuses them: %s. %s", len(task.refused), why)
    return made


@asynccontextmanager
async def _only_worker(row: EmbeddingProfile, wait: timedelta, meanwhile: Callable[[], None]) -> AsyncIterator[bool]:
    """Whether this process alone makes vectors of the profile now."""
    alone = await sync_to_async(advisory.taken)("embed", row.pk, wait=wait, meanwhile=meanwhile)
    if wait and not alone:
        logger.warning("Another process is making vectors; it makes the missing ones.")
    try:
        yield alone
    finally:
        if alone:
            await sync_to_async(advisory.give_back)("embed", row.pk)


async def _embed_passages(task: _Task) -> int:
    passages = await sync_to_async(_passages_without)(task.row, task.owner, 0, task.batch)
    if not passages:
        return 0
    made = 0
    async with _in_sight(task) as joint:
        while passages:
            vectors = await _vectors(task, [passage.text for passage in passages])
            made += await sync_to_async(_store_passages)(task.row, {passages[at]: v for at, v in vectors.items()})
            await sync_to_async(joint.add)([passage.owner_id for passage in passages])
            passages = await sync_to_async(_passages_without)(task.row, task.owner, passages[-1].pk, task.batch)
    return made


@asynccontextmanager
async def _in_sight(task: _Task) -> AsyncIterator[work.Joint]:
    """Rows of work for the chat users whose passages have no vector."""
    totals = await sync_to_async(_missing)(task.row, task.owner)
    joint = work.Joint(Work.Kind.EMBED, task.worker, totals, task.report)
    try:
        yield joint
    except BaseException as error:
        await sync_to_async(joint.end)(error)
        raise
    await sync_to_async(joint.end)()


async def _embed_cards(task: _Task) -> int:
    made = last = 0
    while missing := await sync_to_async(_cards_without)(task.row, task.owner, last, task.batch):
        vectors = await _vectors(task, [card.text for card in missing])
        made += await sync_to_async(_store_cards)(task.row, {missing[at]: v for at, v in vectors.items()})
        last = missing[-1].pk
    return made


async def _embed_topics(task: _Task) -> int:
    made = last = 0
    while topics := await sync_to_async(_topics_without)(task.row, task.owner, last, task.batch):
        summaries = await _vectors(task, [topic.summary for topic in topics])
        means = await sync_to_async(_passage_means)(task.row, topics)
        vectors = {topics[at]: _joined(means.get(topics[at].pk), summary) for at, summary in summaries.items()}
        made += await sync_to_async(_store_topics)(task.row, vectors)
        last = topics[-1].pk
    return made


async def _vectors(task: _Task, texts: Sequence[str], first: int = 0) -> dict[int, NDArray[np.float32]]:
    """Vectors by the texts' places, ``first`` being the first one's; a refused text's place is missing.

    Of a batch that fails, the halves are tried, down to the texts that are to blame.
    """
    try:
        return dict(enumerate(await _embed(task.embedder, texts), first))
    except EmbeddingError as error:
        await _embed(task.embedder, [HARMLESS])
        if len(texts) == 1:
            task.refused.append(str(error))
            return {}
    half = len(texts) // 2
    return await _vectors(task, texts[:half], first) | await _vectors(task, texts[half:], first + half)


async def _embed(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    with metrics.embedding(len(texts)):
        vectors = await embedder.embed(texts)
        if vectors.shape != (len(texts), embedder.profile.dimensions):
            raise EmbeddingError(f"{len(texts)} texts came back as vectors of shape {vectors.shape}.")
    return vectors


def _passages_without(row: EmbeddingProfile, owner: ChatUser | None, last: int, most: int) -> list[Passage]:
    vectors = PassageVector.objects.filter(passage=OuterRef("pk"), profile=row)
    passages = Passage.objects.filter(~Exists(vectors), pk__gt=last)
    return list(_of(passages, owner).only("id", "owner_id", "text").order_by("pk")[:most])


def _missing(row: EmbeddingProfile, owner: ChatUser | None) -> dict[int, int]:
    """How many passages of each owner have no vector."""
    vectors = PassageVector.objects.filter(passage=OuterRef("pk"), profile=row)
    missing = _of(Passage.objects.filter(~Exists(vectors)), owner)
    return dict(missing.order_by().values_list("owner").annotate(n=Count("pk")))


def _cards_without(row: EmbeddingProfile, owner: ChatUser | None, last: int, most: int) -> list[Card]:
    vectors = CardVector.objects.filter(card=OuterRef("pk"), profile=row)
    missing = Card.objects.filter(~Exists(vectors), pk__gt=last)
    return list(_of(missing, owner).only("id", "owner_id", "text").order_by("pk")[:most])


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
def _store_passages(row: EmbeddingProfile, vectors: Mapping[Passage, NDArray[np.float32]]) -> int:
    # Held, so that a chat user who is erased meanwhile takes no batch of somebody else's down.
    here = set(_held(Passage.objects.filter(pk__in=[passage.pk for passage in vectors])))
    made = [
        PassageVector(owner_id=passage.owner_id, passage=passage, profile=row, dimensions=row.dimensions, vector=vector)
        for passage, vector in vectors.items()
        if passage.pk in here
    ]
    return len(PassageVector.objects.bulk_create(made, ignore_conflicts=True))


@transaction.atomic
def _store_cards(row: EmbeddingProfile, vectors: Mapping[Card, NDArray[np.float32]]) -> int:
    held = Card.objects.filter(pk__in=[card.pk for card in vectors]).order_by("pk").select_for_update(no_key=True)
    now = dict(held.values_list("pk", "text"))
    made = [
        CardVector(owner_id=card.owner_id, card=card, profile=row, dimensions=row.dimensions, vector=vector)
        for card, vector in vectors.items()
        # A card that was renewed while the model was working gets the vector of its new text later.
        if now.get(card.pk) == card.text
    ]
    return len(CardVector.objects.bulk_create(made, ignore_conflicts=True))


@transaction.atomic
def _store_topics(row: EmbeddingProfile, vectors: Mapping[Topic, NDArray[np.float64]]) -> int:
    here = set(_held(Topic.objects.filter(pk__in=[topic.pk for topic in vectors])))
    made = [
        TopicVector(owner_id=topic.owner_id, topic=topic, profile=row, vector=vector)
        for topic, vector in vectors.items()
        if topic.pk in here
    ]
    return len(TopicVector.objects.bulk_create(made, ignore_conflicts=True))


def _held(rows: QuerySet[Row]) -> QuerySet[Row, int]:
    return rows.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True)
