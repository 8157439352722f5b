"""Topics that the archivist could not read: those that are read again after a wait, and those that wait for a person.

If a model cannot be reached or answers too late, the chat user's other topics wait as well, so an outage costs only one
question every few minutes. A topic that failed more than ``PATIENCE`` times delays only itself. After an unreadable
answer the question is asked once more at once; then the topic waits for a person, who may have it read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone
from django.utils.translation import gettext_lazy, ngettext_lazy

from memoryapp.models import ChatUser, Topic, UnreadTopic, Work
from memoryapp.models.work import WorkKind
from memoryapp.operations.waits import waiting

EXTRACT = WorkKind(
    "extract",
    gettext_lazy("Extraction"),
    ngettext_lazy("%(done)s topic (%(percent)s %%)", "%(done)s topics (%(percent)s %%)", "n"),
)
FIRST_WAIT = timedelta(minutes=1)
LONGEST_WAIT = timedelta(hours=1)
# After more attempts than this, the topic may be at fault.
PATIENCE = 3

State = UnreadTopic.State


@dataclass(frozen=True, slots=True)
class UnreadCounts:
    """How many live topics are not read yet, and how many of them failed."""

    unread: int
    failed: int


def backlog(owner: ChatUser) -> UnreadCounts:
    return UnreadCounts(_unread().filter(owner=owner).count(), failed(owner).count())


def unread() -> QuerySet[Topic]:
    """Live topics that wait for the archivist, without those that failed and those of chat users without extraction."""
    topics = _unread().exclude(owner__extraction=ChatUser.Extraction.OFF)
    return topics.exclude(pk__in=UnreadTopic.objects.filter(state=State.FAILED).values("topic"))


def failed(owner: ChatUser | None = None) -> QuerySet[UnreadTopic]:
    """Topics that could not be read and wait for a person, latest first."""
    rows = UnreadTopic.objects.filter(state=State.FAILED, topic__is_live=True).select_related("topic", "owner")
    return (rows if owner is None else rows.filter(owner=owner)).order_by("-at", "-pk")


def retry(rows: Iterable[UnreadTopic]) -> int:
    """Makes the failed ones of these topics due again; returns how many there were."""
    numbers = [row.pk for row in rows]
    failed = UnreadTopic.objects.filter(pk__in=numbers, state=State.FAILED)
    return failed.update(state=State.WAITING, attempts=0, due_at=timezone.now(), at=timezone.now())


def due(owner: ChatUser) -> QuerySet[Topic]:
    """The owner's live topics that are due, oldest first; none while all of them wait for the model."""
    rows = UnreadTopic.objects.filter(owner=owner)
    if rows.filter(_pauses()).exists():
        return Topic.objects.none()
    not_yet = rows.filter(Q(state=State.FAILED) | waiting("due_at", LONGEST_WAIT)).values("topic")
    return _unread().filter(owner=owner).exclude(pk__in=not_yet).order_by("ended_at", "pk")


def with_due() -> QuerySet[ChatUser]:
    """Chat users who may have topics that are due; those whose last pass is longest ago come first."""
    wanted = ChatUser.objects.filter(pk__in=unread().values("owner"))
    paused = UnreadTopic.objects.filter(_pauses()).values("owner")
    last = Work.objects.filter(owner=OuterRef("pk"), kind=EXTRACT).values("at")
    latest = Subquery(last.order_by("-at")[:1])
    return wanted.exclude(pk__in=paused).order_by(latest.asc(nulls_first=True), "pk")


def _unread() -> QuerySet[Topic]:
    return Topic.objects.live().filter(facts_extracted=False)


def _pauses() -> Q:
    return waiting("due_at", LONGEST_WAIT) & Q(state=State.WAITING, attempts__lte=PATIENCE)


def postpone(topic: Topic, fault: str) -> UnreadTopic:
    """Has the topic read again after a wait, which doubles with each attempt, up to ``LONGEST_WAIT``."""
    known = UnreadTopic.objects.filter(topic=topic).first()
    attempts = (known.attempts if known else 0) + 1
    wait = min(FIRST_WAIT * 2 ** min(attempts - 1, 10), LONGEST_WAIT)
    return _put(topic, state=State.WAITING, attempts=attempts, due_at=timezone.now() + wait, fault=fault)


def give_up(topic: Topic, fault: str) -> UnreadTopic:
    """Marks the topic as failed, so it waits for a person."""
    return _put(topic, state=State.FAILED, due_at=timezone.now(), fault=fault)


def _put(topic: Topic, **values: object) -> UnreadTopic:
    row, _made = UnreadTopic.objects.update_or_create(topic=topic, defaults={"owner_id": topic.owner_id, **values})
    return row
