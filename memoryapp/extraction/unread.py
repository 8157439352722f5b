"""Topics that could not be read: which wait, for how long, and which wait for a person.

A model that cannot be reached or answers too late holds back the chat user's other topics, too, so that an outage costs
a question every few minutes. A topic that failed so often by itself holds back nobody but itself. An answer that nobody
can read is asked for once more at once; then the topic waits for a person, who may ask again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from memoryapp.models import ChatUser, Topic, UnreadTopic, Work
from memoryapp.operations.waits import waiting

FIRST_WAIT = timedelta(minutes=1)
LONGEST_WAIT = timedelta(hours=1)
# After so many attempts it may be the topic's own fault.
PATIENCE = 3

State = UnreadTopic.State


@dataclass(frozen=True, slots=True)
class UnreadCounts:
    """How many live topics are not read yet, and of these how many failed."""

    unread: int
    failed: int


def backlog(owner: ChatUser) -> UnreadCounts:
    return UnreadCounts(_unread().filter(owner=owner).count(), failed(owner).count())


def unread() -> QuerySet[Topic]:
    """Live topics that wait for the archivist: of chat users for whom facts are extracted, and without those that
    failed."""
    topics = _unread().exclude(owner__extraction=ChatUser.Extraction.OFF)
    return topics.exclude(pk__in=UnreadTopic.objects.filter(state=State.FAILED).values("topic"))


def failed(owner: ChatUser | None = None) -> QuerySet[UnreadTopic]:
    """Topics whose facts and people could not be extracted and that wait for a person, the latest first."""
    rows = UnreadTopic.objects.filter(state=State.FAILED, topic__is_live=True).select_related("topic", "owner")
    return (rows if owner is None else rows.filter(owner=owner)).order_by("-at", "-pk")


def retry(rows: Iterable[UnreadTopic]) -> int:
    """The worker reads these topics again soon; returns how many of them had failed."""
    numbers = [row.pk for row in rows]
    failed = UnreadTopic.objects.filter(pk__in=numbers, state=State.FAILED)
    return failed.update(state=State.WAITING, attempts=0, due_at=timezone.now(), at=timezone.now())


def due(owner: ChatUser) -> QuerySet[Topic]:
    """The owner's live topics whose turn it is, oldest first; none while the model is given time."""
    rows = UnreadTopic.objects.filter(owner=owner)
    if rows.filter(_pauses()).exists():
        return Topic.objects.none()
    not_yet = rows.filter(Q(state=State.FAILED) | waiting("due_at", LONGEST_WAIT)).values("topic")
    return _unread().filter(owner=owner).exclude(pk__in=not_yet).order_by("ended_at", "pk")


def with_due() -> QuerySet[ChatUser]:
    """The chat users for whom there may be something to read, those longest without work first."""
    wanted = ChatUser.objects.filter(pk__in=unread().values("owner"))
    paused = UnreadTopic.objects.filter(_pauses()).values("owner")
    last = Work.objects.filter(owner=OuterRef("pk"), kind=Work.Kind.EXTRACT).values("at")
    latest = Subquery(last.order_by("-at")[:1])
    return wanted.exclude(pk__in=paused).order_by(latest.asc(nulls_first=True), "pk")


def _unread() -> QuerySet[Topic]:
    return Topic.objects.live().filter(facts_extracted=False)


def _pauses() -> Q:
    return waiting("due_at", LONGEST_WAIT) & Q(state=State.WAITING, attempts__lte=PATIENCE)


def postpone(topic: Topic, fault: str) -> UnreadTopic:
    """The model gave no answer: the topic is read again after a while, each time a longer one."""
    known = UnreadTopic.objects.filter(topic=topic).first()
    attempts = (known.attempts if known else 0) + 1
    wait = min(FIRST_WAIT * 2 ** min(attempts - 1, 10), LONGEST_WAIT)
    return _put(topic, state=State.WAITING, attempts=attempts, due_at=timezone.now() + wait, fault=fault)


def give_up(topic: Topic, fault: str) -> UnreadTopic:
    """The topic waits for a person."""
    return _put(topic, state=State.FAILED, due_at=timezone.now(), fault=fault)


def _put(topic: Topic, **values: object) -> UnreadTopic:
    row, _made = UnreadTopic.objects.update_or_create(topic=topic, defaults={"owner_id": topic.owner_id, **values})
    return row
