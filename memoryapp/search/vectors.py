"""Makes the vectors that are missing.

What is missing is read from the rows, so when a worker is killed the next one simply continues. Only one worker makes
vectors at a time, because they cost money. A text that the model refuses does not stop the others. Search compares
passages and cards; cards are made or renewed here first. The vector of a topic is that of its summary and messages
together; it serves neighbours, maps and suggestions. Items are compared by the searches of programs."""

import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf
from typing import Any, Generic, TypeVar

import numpy as np
from asgiref.sync import sync_to_async
from django.db import IntegrityError, transaction
from django.db.models import Count, Model, QuerySet
from django.utils.translation import gettext_lazy, ngettext_lazy
from numpy.typing import NDArray

from memoryapp.engine.embeddings import Embedder, EmbeddingError, Vectors, unit
from memoryapp.engine.text.passages import topic_texts
from memoryapp.models import (
    Card,
    CardVector,
    ChatUser,
    EmbeddingProfile,
    ItemVector,
    Message,
    Passage,
    PassageVector,
    Pause,
    StoredItem,
    Topic,
    TopicVector,
)
from memoryapp.models.user import Owned
from memoryapp.models.work import WorkKind
from memoryapp.platform import database, metrics, work
from memoryapp.platform.database import enough_after
from memoryapp.platform.logs import cause
from memoryapp.search import items as cards
from memoryapp.search import profiles
from memoryapp.search.profiles import note_answer, profile_row

EMBED = WorkKind(
    "embed",
    gettext_lazy("Embedding"),
    ngettext_lazy("%(done)s passage (%(percent)s %%)", "%(done)s passages (%(percent)s %%)", "n"),
)
# As many texts as an endpoint takes in one request; what was paid for is stored before the next request.
BATCH = 100
# A text that no model refuses. If the model refuses it, the texts are not the cause.
HARMLESS = "ok"
EMPTY = "It has no text."

logger = logging.getLogger(__name__)

Row = TypeVar("Row", bound=Owned)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[Row]):
    """Rows that get a vector: the name by which their vectors refer to them, their table, which of them lack a vector
    of a profile (of one owner or of all), the field with their text, and the table of their vectors."""

    noun: str
    rows: type[Row]
    missing: Callable[[EmbeddingProfile, ChatUser | None], QuerySet[Row]]
    text: str
    vectors: type[Model]


_PASSAGES = _Kind("passage", Passage, profiles.passages, "text", PassageVector)
_CARDS = _Kind("card", Card, profiles.cards, "text", CardVector)
_TOPICS = _Kind("topic", Topic, profiles.topics, "summary", TopicVector)
_ITEMS = _Kind("item", StoredItem, profiles.items, "text", ItemVector)
# After the passages, which most searches compare.
_OTHERS: tuple[_Kind[Any], ...] = (_CARDS, _TOPICS, _ITEMS)


@dataclass(frozen=True, slots=True)
class _Task:
    """Making vectors of one profile, for one owner or for everybody. ``refused`` collects the reasons, one for each
    text."""

    embedder: Embedder
    row: EmbeddingProfile
    owner: ChatUser | None
    batch: int
    worker: str
    report: work.Report
    is_enough: Callable[[], bool]
    is_whole: bool = False
    refused: list[str] = field(default_factory=list)

    async def refuse(self, noun: str, row: Owned, reason: str) -> None:
        """Records that the text of ``row`` was refused, so that not every sweep sends it again."""
        self.refused.append(reason)
        with suppress(IntegrityError):
            await sync_to_async(profiles.keep_refusal)(self.row, row.owner_id, noun, row.pk, reason)


async def embed_pending(
    embedder: Embedder,
    owner: ChatUser | None = None,
    batch: int = BATCH,
    *,
    wait: timedelta = timedelta(0),
    meanwhile: Callable[[], None] = lambda: None,
    worker: str = work.WORKER,
    report: work.Report = lambda shown: None,
    seconds: float = inf,
) -> int:
    """Makes the missing vectors in the embedder's profile, of one owner or of all, for about so many ``seconds``.
    Returns how many.

    One worker works on a profile at a time. If another one does, this one waits up to ``wait``, calling ``meanwhile``,
    then returns 0 and leaves the work to the other. A text that the model refuses is logged and left out. Raises
    EmbeddingError when the model does not answer; vectors made before are kept. Cards are brought up to date in any
    case. The progress of each owner's passages is stored in a row of work and passed to ``report``."""
    row = await profile_row(embedder.profile)
    task = _Task(embedder, row, owner, batch, worker, report, enough_after(seconds))
    # Who sets no time waits until nothing is missing.
    task = replace(task, is_whole=owner is None and seconds < inf and profiles.is_whole(row))
    # No kind waits for the whole backlog of another.
    most = replace(task, is_enough=enough_after(seconds * 0.75))
    await sync_to_async(cards.refresh)(owner, () if owner else work.at_rest(EMBED))
    async with _only_worker(task.row, wait, meanwhile) as alone:
        if not alone:
            return 0
        made = await _embed_passages(most)
        for kind in _OTHERS:
            made += await _embed_latest(task, kind)
        if owner is None:
            await sync_to_async(profiles.note_look)(row, has_backlog=task.is_enough() or made >= profiles.NEWEST // 2)
    if task.refused:
        why = cause(task.refused[0])
        logger.warning("Texts without a vector, for the model refuses them: %s. %s", len(task.refused), why)
    return made


@asynccontextmanager
async def _only_worker(row: EmbeddingProfile, wait: timedelta, meanwhile: Callable[[], None]) -> AsyncIterator[bool]:
    """Yields whether this process is the only one that makes vectors of the profile."""
    alone = await sync_to_async(database.try_acquire)("embed", row.pk, wait=wait, meanwhile=meanwhile)
    if wait and not alone:
        logger.warning("Another process is making vectors; it makes the missing ones.")
    try:
        yield alone
    finally:
        if alone:
            await sync_to_async(database.release)("embed", row.pk)


async def _embed_passages(task: _Task) -> int:
    totals = await sync_to_async(_totals)(task)
    turns = deque((owner, 0) for owner in totals)
    passages = await sync_to_async(_next_passages)(task, turns)
    if not passages:
        return 0
    made = 0
    async with _in_sight(task, totals) as joint:
        while passages and not task.is_enough():
            await sync_to_async(joint.begin)([passage.owner_id for passage in passages])
            vectors = await _vectors_of(task, _PASSAGES, {passage: [passage.text] for passage in passages})
            made += await sync_to_async(_store)(task.row, _PASSAGES, vectors)
            await sync_to_async(joint.add)([passage.owner_id for passage in passages])
            passages = await sync_to_async(_next_passages)(task, turns)
    return made


def _next_passages(task: _Task, turns: deque[tuple[int, int]]) -> list[Passage]:
    """The next passages: those of active sessions first, because people ask for what was just said, then some of each
    chat user in turn. ``turns`` has the chat users who have more, each with the number after which theirs go on."""
    passages = _page(task, profiles.fresh(task.row, task.owner), 0, "text")
    while turns and len(passages) < task.batch:
        owner, last = turns.popleft()
        left = profiles.passages(task.row).filter(owner=owner).exclude(pk__in=[passage.pk for passage in passages])
        if found := _page(task, left, last, "text")[: task.batch - len(passages)]:
            passages += found
            turns.append((owner, found[-1].pk))
    return passages


@asynccontextmanager
async def _in_sight(task: _Task, totals: Mapping[int, int]) -> AsyncIterator[work.JointWork]:
    """Rows of work for the chat users whose passages have no vector."""
    # Vectors of a profile that is to take over are separate work, beside those of the serving profile.
    source = str(task.row) if task.row.asked_at and not task.row.is_serving else ""
    joint = work.JointWork(EMBED, task.worker, totals, task.report, source)
    try:
        yield joint
    except BaseException as error:
        await sync_to_async(joint.end)(error)
        raise
    await sync_to_async(joint.end)()


async def _embed_latest(task: _Task, kind: _Kind[Row]) -> int:
    """Makes the vectors of these rows, the latest first: behind a backlog nobody's new ones wait."""
    made, first = 0, None
    while not task.is_enough() and (found := await sync_to_async(_latest)(task, kind, first)):
        for texts in _portions(await sync_to_async(_texts_of)(task, found), task.batch):
            vectors = await _vectors_of(task, kind, texts)
            made += await sync_to_async(_store)(task.row, kind, vectors)
        first = found[-1].pk
    return made


def _latest(task: _Task, kind: _Kind[Row], first: int | None) -> list[Row]:
    rows = _unpaused(task, kind.missing(task.row, task.owner))
    rows = rows if first is None else rows.filter(pk__lt=first)
    return list(rows.only("id", "owner_id", kind.text).order_by("-pk")[: task.batch])


async def embed_items(embedder: Embedder, items: Sequence[StoredItem]) -> int:
    """Makes the vectors of these items, which have a text, in one request. Returns how many were stored. Raises
    EmbeddingError."""
    vectors = await _embed(embedder, [item.text for item in items])
    row = await profile_row(embedder.profile)
    return await sync_to_async(_store)(row, _ITEMS, dict(zip(items, vectors, strict=True)))


def _texts_of(task: _Task, rows: Sequence[Any]) -> dict[Any, Sequence[str]]:
    """The texts of each row. A topic has several; its vector is the mean of theirs."""
    topics = [row for row in rows if isinstance(row, Topic)]
    if not topics:
        return {row: [row.text] for row in rows}
    logs: defaultdict[int | None, list[tuple[str, str]]] = defaultdict(list)
    messages = Message.objects.filter(topic__in=topics).in_order().values_list("topic", "role", "text")
    for topic, role, text in messages.iterator():
        logs[topic].append((role, text))
    most = task.embedder.profile.most_chars
    return {topic: topic_texts(topic.summary, logs[topic.pk], most) for topic in topics}


def _portions(texts: Mapping[Row, Sequence[str]], batch: int) -> Iterator[dict[Row, Sequence[str]]]:
    """The rows in portions of about ``batch`` texts; all texts of a row are in one portion."""
    portion: dict[Row, Sequence[str]] = {}
    for row, own in texts.items():
        if portion and sum(map(len, portion.values())) + len(own) > batch:
            yield portion
            portion = {}
        portion[row] = own
    if portion:
        yield portion


async def _vectors_of(
    task: _Task, kind: _Kind[Row], texts: Mapping[Row, Sequence[str]]
) -> dict[Row, NDArray[np.float32]]:
    """A vector for each row: the unit mean of the vectors of its texts. A row without any is left out, and its refusal
    is recorded. An empty text is refused here, without asking the model."""
    asked = [(row, text) for row, own in texts.items() for text in own if text.strip()]
    reasons: dict[int, str] = {}
    vectors = await _vectors(task.embedder, [text for _row, text in asked], reasons) if asked else {}
    if vectors:
        await note_answer(task.row)
    found: defaultdict[Row, list[NDArray[np.float32]]] = defaultdict(list)
    for place, vector in vectors.items():
        found[asked[place][0]].append(vector)
    why = {asked[place][0]: reason for place, reason in reasons.items()}
    for row in texts.keys() - found.keys():
        await task.refuse(kind.noun, row, why.get(row, EMPTY))
    return {row: _unit_mean(each) for row, each in found.items()}


def _unit_mean(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    if len(vectors) == 1:
        return vectors[0]
    total: NDArray[np.float32] = np.sum(vectors, axis=0, dtype=np.float32)
    # Vectors that cancel out have no direction; the first one, of the beginning of the text, has.
    return unit(total[np.newaxis])[0] if np.linalg.norm(total) > 1e-6 else vectors[0]


async def _vectors(
    embedder: Embedder, texts: Sequence[str], reasons: dict[int, str], first: int = 0
) -> dict[int, NDArray[np.float32]]:
    """Vectors by the positions of their texts, counted from ``first``; the reason for a refused text goes to
    ``reasons``. When a batch fails, its halves are sent, down to the single texts that cause the failure."""
    try:
        return dict(enumerate(await _embed(embedder, texts), first))
    except EmbeddingError as error:
        await _embed(embedder, [HARMLESS])
        if len(texts) == 1:
            reasons[first] = str(error)
            return {}
    half = len(texts) // 2
    before = await _vectors(embedder, texts[:half], reasons, first)
    return before | await _vectors(embedder, texts[half:], reasons, first + half)


async def _embed(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    with metrics.embedding(len(texts)):
        vectors = await embedder.embed(embedder.profile.as_passages(texts))
        if vectors.shape != (len(texts), embedder.profile.dimensions):
            raise EmbeddingError(f"{len(texts)} texts came back as vectors of shape {vectors.shape}.")
    return vectors


def _page(task: _Task, rows: QuerySet[Row], last: int, *fields: str) -> list[Row]:
    """The next rows after the number ``last``, without chat users whose embedding is paused."""
    following = _unpaused(task, rows).filter(pk__gt=last)
    return list(following.only("id", "owner_id", *fields).order_by("pk")[: task.batch])


def _unpaused(task: _Task, rows: QuerySet[Row]) -> QuerySet[Row]:
    """The rows of chat users whose embedding is not paused and does not rest after a fault; of a whole profile only the
    newest passages and topics. Cards are few, and change later."""
    if task.is_whole and rows.model in (Passage, Topic):
        newest = rows.model._default_manager.order_by("-pk").values_list("pk", flat=True)[profiles.NEWEST :]
        rows = rows.filter(pk__gt=newest.first() or 0)
    paused = Pause.objects.filter(kind=EMBED).values("owner")
    return rows if task.owner else rows.exclude(owner__in=paused).exclude(owner__in=work.at_rest(EMBED))


def _totals(task: _Task) -> dict[int, int]:
    """How many passages of each owner have no vector."""
    missed = _unpaused(task, profiles.passages(task.row, task.owner)).order_by()
    return dict(missed.values_list("owner").annotate(n=Count("pk")))


@transaction.atomic
def _store(row: EmbeddingProfile, kind: _Kind[Row], vectors: Mapping[Row, NDArray[np.float32]]) -> int:
    # Locked, so that an erasure meanwhile does not make a batch with other people's rows fail. A row whose text was
    # written again while the model was asked gets the vector of its new text later.
    asked = kind.rows._default_manager.filter(pk__in=[each.pk for each in vectors])
    now = dict(asked.order_by("pk").select_for_update(no_key=True).values_list("pk", kind.text))
    own = {each: vector for each, vector in vectors.items() if now.get(each.pk) == getattr(each, kind.text)}
    made = [
        kind.vectors(**{kind.noun: each}, owner_id=each.owner_id, profile=row, vector=vector)
        for each, vector in own.items()
    ]
    for vector in made:
        if hasattr(vector, "dimensions"):
            vector.dimensions = row.dimensions
    profiles.forget_refusals(row, kind.noun, [each.pk for each in own])
    return len(kind.vectors._default_manager.bulk_create(made, ignore_conflicts=True))
