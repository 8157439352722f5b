"""Messages in, sessions archived.

Messages come in batches, each a short transaction, and a message that is there already is left as it
is: any import can be repeated, or killed and repeated. ``archive`` turns sessions into topics, one
transaction a session; the model works outside of it, and what it worked on is looked at again inside,
so a crash in between loses nothing and repeats nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.postgres.search import SearchVector
from django.db import transaction
from django.db.models import BooleanField, Count, ExpressionWrapper, Max, Q, QuerySet, Sum, TextField, Value
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import advisory, erasure, metrics, work
from memoryapp.contents import content
from memoryapp.curation.change import Change, CurationError, Stale
from memoryapp.curation.swapping import put_in, swap
from memoryapp.engine.embeddings import Embedder
from memoryapp.engine.lexical import count_terms, fold
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.engine.passages import cut_passages
from memoryapp.engine.splitter import segment
from memoryapp.engine.summaries import Background, background
from memoryapp.importers.record import MessageRecord, Rejected
from memoryapp.models import ChatUser, ImportBatch, Message, Passage, PassageMessage, Topic, TopicEdit, Work
from memoryapp.sessions import Moment, Session, cut_sessions

BATCH = 1000
# How many messages tell which words are common in a memory.
SAMPLED = 4000
ARCHIVIST = "archive"


class IngestionError(Exception):
    """These topics cannot be put over these messages; the text is a sentence for people."""


class AlreadyArchived(IngestionError):
    """Somebody else archived these messages meanwhile, or erased them."""


@dataclass(frozen=True, slots=True)
class Added:
    """What became of records: new, there already, and refused because their id means another message."""

    added: int
    skipped: int
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class Archived:
    """``busy`` when another worker was archiving this chat user, and nothing was done."""

    sessions: int
    topics: int
    messages: int
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Where sessions and topics end.

    A session ends before a pause of ``interval`` and after ``most`` messages, a topic before it has more than
    ``topic_chars`` characters.
    """

    interval: timedelta
    most: int
    topic_chars: int


def limits() -> Limits:
    """Those of the settings."""
    return Limits(timedelta(seconds=settings.CHUNK_INTERVAL), settings.MAX_CHUNK_SIZE, settings.SPLIT_THRESHOLD_CHARS)


def add_messages(owner: ChatUser, records: Iterable[MessageRecord], *, batch: ImportBatch | None = None) -> Added:
    """Stores the records the owner's memory does not hold yet, a thousand at a time. Raises BeingErased."""
    added = skipped = 0
    rejected: list[Rejected] = []
    rest = iter(records)
    while part := list(islice(rest, BATCH)):
        with transaction.atomic():
            # One writer an owner: batches of the same ids in another order would wait for each other for ever.
            advisory.take_until_commit("messages", owner.pk)
            erasure.check_kept(owner)
            new, known, refused = sort_out(owner, part)
            Message.objects.bulk_create(_row(owner, record, batch) for record in new)
        added, skipped = added + len(new), skipped + known
        rejected += refused
    return Added(added, skipped, tuple(rejected))


def sort_out(owner: ChatUser, records: Sequence[MessageRecord]) -> tuple[list[MessageRecord], int, list[Rejected]]:
    """New records, how many are known, and those whose id the owner already has for another message."""
    ids = [record.external_id for record in records]
    held = dict(Message.objects.of(owner).filter(external_id__in=ids).values_list("external_id", "content_hash"))
    new: list[MessageRecord] = []
    known, refused = 0, []
    for record in records:
        content = content_hash(record)
        if record.external_id not in held:
            held[record.external_id] = content
            new.append(record)
        elif held[record.external_id] == content:
            known += 1
        else:
            refused.append(taken(record))
    return new, known, refused


def taken(record: MessageRecord) -> Rejected:
    reason = _("the id %(id)s is already another message's (other text or time); that one was kept")
    return Rejected(record.line, reason % {"id": record.external_id}, record.user, record.external_id)


def content_hash(record: MessageRecord) -> str:
    """What was said, and when; not by whom, for people change how they are shown."""
    return hashlib.sha256(f"{record.sent_at.isoformat()}\n{record.text}".encode()).hexdigest()


def _row(owner: ChatUser, record: MessageRecord, batch: ImportBatch | None) -> Message:
    return Message(
        owner=owner,
        external_id=record.external_id,
        role=record.role,
        author=record.author,
        sent_at=record.sent_at,
        text=record.text,
        session=record.session,
        reply_to=record.reply_to,
        forwarded_from=record.forwarded_from,
        metadata=dict(record.metadata),
        content_hash=content_hash(record),
        batch=batch,
    )


def archive(
    owner: ChatUser,
    embedder: Embedder,
    limits: Limits,
    *,
    now: bool = False,
    wait: timedelta = timedelta(0),
    meanwhile: Callable[[], None] = lambda: None,
    worker: str = work.WORKER,
    report: work.Report = lambda shown: None,
) -> Archived:
    """Topics from the owner's sessions that are over, or from all of them ``now`` or when somebody asked for it.

    One worker an owner: if another is at it, this one waits up to ``wait``, calling ``meanwhile``, then gives up. How
    far it is stands in the owner's row of work, and goes to ``report``. Raises EmbeddingError; the sessions before it
    stay archived.
    """
    with _only_worker(owner, wait, meanwhile) as alone:
        if not alone:
            return Archived(0, 0, 0, busy=True)
        is_asked = work.is_asked(owner)
        sessions = _due(owner, now or is_asked, limits)
        if not (sessions or is_asked):
            return Archived(0, 0, 0)
        with work.going_on(owner, Work.Kind.ARCHIVE, worker, report=report) as steps:
            done = list(_archive_each(owner, sessions, embedder, limits, steps))
    return Archived(
        sessions=sum(bool(topics) for topics in done),
        topics=sum(len(topics) for topics in done),
        messages=sum(topic.message_count for topics in done for topic in topics),
    )


def _archive_each(
    owner: ChatUser, sessions: Sequence[Session], embedder: Embedder, limits: Limits, steps: work.Steps
) -> Iterator[list[Topic]]:
    total, done = sum(len(session.messages) for session in sessions), 0
    memory = _background(owner)
    for session in sessions:
        yield _archive_session(owner, session, embedder, limits, memory)
        done += len(session.messages)
        steps.reached(done, done / total)


def _background(owner: ChatUser) -> Background:
    """The words of the owner's messages, of a large memory of some thousands that lie evenly in it."""
    ids = list(Message.objects.of(owner).order_by("pk").values_list("pk", flat=True))
    chosen = ids[:: len(ids) // SAMPLED + 1]
    return background(Message.objects.of(owner).filter(pk__in=chosen).values_list("text", flat=True))


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the history of some chat users, from which what was archived is counted, whoever did it."""

    owners: Sequence[ChatUser]
    last_edit: int

    @classmethod
    def now(cls, owners: Sequence[ChatUser]) -> Mark:
        last = TopicEdit.objects.filter(owner__in=owners).aggregate(last=Max("pk"))["last"]
        return cls(owners, last or 0)

    def archived_since(self) -> Archived:
        edits = TopicEdit.objects.filter(owner__in=self.owners, kind=TopicEdit.Kind.ARCHIVE, pk__gt=self.last_edit)
        made = Topic.objects.filter(owner__in=self.owners, editedtopic__side="in", editedtopic__edit__in=edits)
        totals = made.aggregate(topics=Count("pk"), messages=Sum("message_count"))
        return Archived(edits.count(), totals["topics"], totals["messages"] or 0)


def with_active_sessions() -> QuerySet[ChatUser]:
    """The chat users who have messages in no topic yet."""
    return ChatUser.objects.filter(pk__in=Message.objects.active().values("owner")).order_by("pk")


def _due(owner: ChatUser, now: bool, limits: Limits) -> list[Session]:
    rows = Message.objects.of(owner).active().order_by("session", "sent_at", "id")
    asking = ExpressionWrapper(Q(text__contains="?"), output_field=BooleanField())
    told = rows.annotate(is_question=asking).values_list("id", "sent_at", "session", "is_question")
    moments = (Moment(*row) for row in told.iterator())
    clock = timezone.now()
    return [
        session
        for session in cut_sessions(moments, interval=limits.interval, most=limits.most)
        if now or session.is_due(clock, limits.interval)
    ]


def _archive_session(
    owner: ChatUser, session: Session, embedder: Embedder, limits: Limits, memory: Background
) -> list[Topic]:
    ids = [message.id for message in session.messages]
    messages = [content(row) for row in Message.objects.of(owner).active().filter(id__in=ids).in_order()]
    if not messages:
        return []
    with metrics.splitting(owner.pk):
        drafts = async_to_sync(segment)(messages, embedder, limits.topic_chars, memory)
    covered = sorted(number for draft in drafts for number in draft.messages)
    if covered != sorted(message.id for message in messages):
        raise IngestionError(_("The topics do not cover each message of the session once."))
    try:
        topics = put_topics(owner, drafts, actor=ARCHIVIST)
    except AlreadyArchived:
        return []
    metrics.archived((topic.size_chars for topic in topics), owner.pk)
    return topics


@transaction.atomic
def put_topics(owner: ChatUser, drafts: Sequence[TopicDraft], *, actor: str, reason: str = "") -> list[Topic]:
    """New live topics over messages no topic holds yet, with their passages, in one edit.

    Raises IngestionError when a draft is empty or two share a message, AlreadyArchived when a message
    is in a topic by now or gone. Vectors follow, see ``vectors.embed_pending``.
    """
    if not drafts:
        return []
    try:
        edit = swap(
            owner, Change((), tuple(drafts)), kind=TopicEdit.Kind.ARCHIVE, actor=actor, reason=reason, by_hand=False
        )
    except Stale as error:
        raise AlreadyArchived(str(error)) from error
    except CurationError as error:
        raise IngestionError(str(error)) from error
    rows = Message.objects.of(owner).in_bulk([number for draft in drafts for number in draft.messages])
    parts = [sorted((rows[number] for number in draft.messages), key=_order) for draft in drafts]
    _put_passages(owner, [[content(row) for row in part] for part in parts])
    return put_in(edit)


def _order(row: Message) -> tuple[datetime, int]:
    return row.sent_at, row.pk


def _put_passages(owner: ChatUser, parts: Iterable[Sequence[MessageContent]]) -> None:
    drafts = [draft for part in parts for draft in cut_passages(part)]
    passages = Passage.objects.bulk_create(
        Passage(
            owner=owner,
            text=draft.text,
            terms=SearchVector(Value(fold(draft.text), output_field=TextField()), config="russian"),
            term_count=count_terms(draft.text),
        )
        for draft in drafts
    )
    PassageMessage.objects.bulk_create(
        PassageMessage(owner=owner, passage=passage, message_id=number)
        for passage, draft in zip(passages, drafts, strict=True)
        for number in dict.fromkeys(draft.messages)
    )


@contextmanager
def _only_worker(owner: ChatUser, wait: timedelta, meanwhile: Callable[[], None]) -> Iterator[bool]:
    """Whether this process alone archives the owner now."""
    alone = advisory.taken("archive", owner.pk, wait=wait, meanwhile=meanwhile)
    try:
        yield alone
    finally:
        if alone:
            advisory.give_back("archive", owner.pk)
