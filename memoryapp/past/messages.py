"""The messages that were in a memory at a moment."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from memoryapp.models import Message, TopicEdit, TopicMessage
from memoryapp.past.topics import topics_at


def messages_at(owner_id: int, moment: datetime) -> QuerySet[Message]:
    """Messages that were in by the moment: those of an import came when it began, others when they were sent.

    What was withdrawn later was still there; what was withdrawn by then and brought back later was not.
    """
    came = Q(batch__started_at__lte=moment) | Q(batch__isnull=True, sent_at__lte=moment)
    was_there = Q(is_withdrawn=False) | Exists(_places(owner_id, moment))
    found = Message.objects.of(owner_id).filter(came & was_there)
    gone = _withdrawn_by(owner_id, moment)
    return found.exclude(batch__in=gone) if gone else found


def in_no_topic_at(owner_id: int, moment: datetime) -> QuerySet[Message]:
    """The messages of ``messages_at`` that were in an active session then."""
    return messages_at(owner_id, moment).filter(~Exists(_places(owner_id, moment)))


def _places(owner_id: int, moment: datetime) -> QuerySet[TopicMessage]:
    """Where a message of an outer query was at the moment."""
    return TopicMessage.objects.filter(message=OuterRef("pk"), topic__in=topics_at(moment).filter(owner=owner_id))


def _withdrawn_by(owner_id: int, moment: datetime) -> list[int]:
    """The imports that were withdrawn at the moment and are not today."""
    edits = TopicEdit.objects.filter(owner=owner_id, kind=TopicEdit.Kind.WITHDRAW, at__lte=moment, batch__isnull=False)
    undone = TopicEdit.objects.filter(undoes=OuterRef("pk"))
    taken_back = edits.filter(Exists(undone.filter(at__gt=moment)), ~Exists(undone.filter(at__lte=moment)))
    return list(taken_back.values_list("batch", flat=True).distinct())
