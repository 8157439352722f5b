"""Archives sessions that have ended as topics. Each session is one transaction. The cutter works outside of it, and the
transaction checks the messages again, so a crash in between loses nothing and repeats nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Max, OuterRef, QuerySet, Subquery, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation.change import PROGRAM, Change, CurationError, Stale
from memoryapp.curation.topic_writer import put_in, swap
from memoryapp.engine.memory import TopicDraft
from memoryapp.intake.cutters import Cut, Cutter
from memoryapp.memory import sessions as active
from memoryapp.memory.content import content
from memoryapp.memory.sessions import Session, SessionLimits, settle
from memoryapp.models import AgentCall, ChatUser, Message, Topic, TopicEdit, Work
from memoryapp.platform import database, metrics, work
from memoryapp.platform.cells import of_owner
from memoryapp.platform.database import StagePaused

# Stores new topics over messages that are in no topic yet, with the passages by which search finds them.


class IngestionError(Exception):
    """These topics cannot be made from these messages; the text is a sentence for people."""


class AlreadyArchived(IngestionError):
    """The messages were archived or erased meanwhile."""


@transaction.atomic
def put_topics(
    owner: ChatUser, drafts: Sequence[TopicDraft], *, actor: str, reason: str = "", call: AgentCall | None = None
) -> list[Topic]:
    """Stores new live topics over messages that are in no topic yet, with their passages, in one edit.

    ``call`` is the question to a model about these messages. ``vectors.embed_pending`` makes the vectors later.

    Raises IngestionError when a draft is empty or two drafts share a message, and AlreadyArchived when a message is in
    a topic now or was erased."""
    if not drafts:
        return []
    try:
        made = Change((), tuple(drafts))
        edit = swap(owner, made, kind=TopicEdit.Kind.ARCHIVE, actor=actor, reason=reason, by_hand=False, call=call)
    except Stale as error:
        raise AlreadyArchived(str(error)) from error
    except CurationError as error:
        raise IngestionError(str(error)) from error
    rows = Message.objects.of(owner).in_bulk([number for draft in drafts for number in draft.messages])
    parts = [sorted((rows[n] for n in draft.messages), key=lambda row: (row.sent_at, row.pk)) for draft in drafts]
    settle(owner, [[content(row) for row in part] for part in parts])
    return put_in(edit)


@dataclass(frozen=True, slots=True)
class Archived:
    """How much was archived; ``busy`` if another worker was archiving this chat user, so nothing was done."""

    sessions: int
    topics: int
    messages: int
    busy: bool = False


@of_owner
def archive(
    owner: ChatUser,
    cutter: Cutter,
    limits: SessionLimits,
    *,
    now: bool = False,
    wait: timedelta = timedelta(0),
    meanwhile: Callable[[], None] = lambda: None,
    until: Callable[[], bool] = lambda: False,
    worker: str = work.WORKER,
    report: work.Report = lambda shown: None,
) -> Archived:
    """Archives the owner's sessions that have ended; all of them with ``now``, or if a person asked for it.

    Only one worker archives an owner at a time: if another does, this one calls ``meanwhile`` and waits up to ``wait``,
    then gives up. The progress is stored in the owner's row of work, and passed to ``report``. Raises IngestionError,
    and the errors of ``cutter``; earlier sessions stay archived. So they do when ``until`` says that it is enough,
    which is a StagePaused: others have their turn. A session that somebody asked for is archived first."""
    with database.exclusive("archive", owner.pk, wait=wait, meanwhile=meanwhile) as alone:
        if not alone:
            return Archived(0, 0, 0, busy=True)
        asked = work.AskedSessions.of(owner)
        sessions = _due(owner, now, asked, limits)
        if not (sessions or asked):
            return Archived(0, 0, 0)
        done: list[list[Topic]] = []
        try:
            with work.tracked(owner, work.ARCHIVE, worker, report=report) as steps:
                for topics in _archive_each(owner, sessions, cutter, limits, steps):
                    done.append(topics)
                    if until() and len(done) < len(sessions):
                        raise StagePaused
        except StagePaused:
            # What was asked for stays asked for.
            raise
        except BaseException:
            asked.end(owner)
            raise
        asked.end(owner)
    return Archived(
        sessions=sum(bool(topics) for topics in done),
        topics=sum(len(topics) for topics in done),
        messages=sum(topic.message_count for topics in done for topic in topics),
    )


def _archive_each(
    owner: ChatUser, sessions: Sequence[Session], cutter: Cutter, limits: SessionLimits, steps: work.Steps
) -> Iterator[list[Topic]]:
    total, done = sum(len(session.messages) for session in sessions), 0
    for session in sessions:
        yield _archive_session(owner, session, cutter, limits)
        done += len(session.messages)
        steps.reached(done, done / total)


@dataclass(frozen=True, slots=True)
class ArchiveMark:
    """A place in the history of some chat users, after which archived sessions are counted, whoever archived them."""

    owners: Sequence[ChatUser]
    last_edit: int

    @classmethod
    def now(cls, owners: Sequence[ChatUser]) -> ArchiveMark:
        last = TopicEdit.objects.filter(owner__in=owners).aggregate(last=Max("pk"))["last"]
        return cls(owners, last or 0)

    def archived_since(self) -> Archived:
        edits = TopicEdit.objects.filter(owner__in=self.owners, kind=TopicEdit.Kind.ARCHIVE, pk__gt=self.last_edit)
        made = Topic.objects.filter(owner__in=self.owners, editedtopic__side="in", editedtopic__edit__in=edits)
        totals = made.aggregate(topics=Count("pk"), messages=Sum("message_count"))
        return Archived(edits.count(), totals["topics"], totals["messages"] or 0)


def with_active_sessions() -> QuerySet[ChatUser]:
    """Returns the chat users who have messages that are in no topic yet; those whose turn is longest ago come first."""
    last = Work.objects.filter(owner=OuterRef("pk"), kind=work.ARCHIVE).order_by("-at").values("at")[:1]
    wanted = ChatUser.objects.filter(pk__in=Message.objects.active().values("owner"))
    return wanted.order_by(Subquery(last).asc(nulls_first=True), "pk")


def latest_sessions(owner: ChatUser, limits: SessionLimits, most: int) -> list[Session]:
    """Returns the sessions of the owner's ``most`` latest messages that are in no topic, the latest first. The oldest
    of them may have begun earlier."""
    latest = Message.objects.of(owner).active().order_by("-sent_at", "-id").values("pk")[:most]
    return active.cut(Message.objects.filter(pk__in=latest), limits)[::-1]


def _due(owner: ChatUser, now: bool, asked: work.AskedSessions, limits: SessionLimits) -> list[Session]:
    clock = timezone.now()
    everything = now or asked.everything
    sessions = active.cut(Message.objects.of(owner).active(), limits)
    sessions.sort(key=lambda session: session.messages[0].session not in asked.labels)
    return [
        session
        for session in sessions
        if everything or session.messages[0].session in asked.labels or clock >= session.due_at
    ]


def _archive_session(owner: ChatUser, session: Session, cutter: Cutter, limits: SessionLimits) -> list[Topic]:
    ids = [message.id for message in session.messages]
    messages = [content(row) for row in Message.objects.of(owner).active().filter(id__in=ids).in_order()]
    if not messages:
        return []
    with metrics.splitting(owner.pk):
        cut = cutter(messages, limits)
    covered = sorted(number for draft in cut.drafts for number in draft.messages)
    if covered != sorted(message.id for message in messages):
        raise IngestionError(_("The topics do not cover each message of the session once."))
    try:
        topics = _put(owner, cut)
    except AlreadyArchived:
        return []
    metrics.archived((topic.size_chars for topic in topics), owner.pk, gaps=cut.left_out)
    return topics


@transaction.atomic
def _put(owner: ChatUser, cut: Cut) -> list[Topic]:
    """Stores the topics of a session, and their numbers with each question to a model that led to them."""
    call = cut.calls[0] if cut.calls else None
    topics = put_topics(owner, cut.drafts, actor=PROGRAM, reason=cut.reason, call=call)
    names = [topic.pk for topic in topics]
    AgentCall.objects.filter(owner=owner, pk__in=[call.pk for call in cut.calls]).update(topics=names)
    return topics
