"""Which topics were live at a moment, what was decided of them then, and which of them contained given messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Count, OuterRef, Subquery
from django.db.models.lookups import Exact

from memoryapp.models import EditedTopic, KnowledgeEdit, Topic, TopicMessage
from memoryapp.models.topic import TopicQuerySet
from memoryapp.past.known import recall_at

Side = EditedTopic.Side
# The last edit before the moment that concerns a topic put it in.
LIVE_AT = """
SELECT topic_id FROM (
    SELECT DISTINCT ON (side.topic_id) side.topic_id, side.side
    FROM memoryapp_editedtopic side JOIN memoryapp_topicedit edit ON edit.id = side.edit_id
    WHERE side.owner_id = %(owner)s AND edit.at <= %(as_of)s::timestamptz
    ORDER BY side.topic_id, edit.id DESC
) AS last WHERE side = 'in'
"""


def topics_at(moment: datetime) -> TopicQuerySet:
    """The topics that were live at the moment, of whomever."""
    return Topic.objects.filter(Exact(_side(moment), Side.IN))


def retired_by(moment: datetime) -> TopicQuerySet:
    """The topics that had been live, and no longer were at the moment."""
    return Topic.objects.filter(Exact(_side(moment), Side.OUT))


def side_at(topic: Topic, moment: datetime) -> str:
    """``in`` for a topic that was live at the moment, ``out`` for one retired by then, empty for one not yet made."""
    return Topic.objects.filter(pk=topic.pk).values_list(_side(moment), flat=True).get() or ""


def _side(moment: datetime) -> Subquery:
    """On which side of the last edit before the moment a topic of an outer query was; null for one not yet made."""
    last = EditedTopic.objects.filter(topic=OuterRef("pk"), edit__at__lte=moment).order_by("-edit_id")
    return Subquery(last.values("side")[:1])


def as_then(owner_id: int, topics: Collection[Topic], moment: datetime, *, is_live: bool = True) -> None:
    """Gives rows of topics the state and the decision on recall that they had at the moment; one query. They are not
    to be saved."""
    recall = recall_at(owner_id, KnowledgeEdit.Noun.TOPIC, {topic.pk: topic.recall for topic in topics}, moment)
    for topic in topics:
        topic.is_live, topic.recall = is_live, recall[topic.pk]


def holders_at(owner_id: int, ids: Iterable[int], moment: datetime) -> dict[int, tuple[int, ...]]:
    """The topics of the moment that contained messages of each of these topics, those with most of them first; a topic
    that was live is its own holder. One query."""
    then = TopicMessage.objects.filter(owner=owner_id, topic__in=topics_at(moment).filter(owner=owner_id))
    pairs = then.filter(message__topicmessage__topic__in=set(ids)).values_list("message__topicmessage__topic", "topic")
    found: dict[int, tuple[int, ...]] = {}
    for old, holder, _n in pairs.annotate(n=Count("pk")).order_by("message__topicmessage__topic", "-n", "topic"):
        found[old] = (*found.get(old, ()), holder)
    return found


def topics_of(messages: Iterable[int], owner_id: int, moment: datetime) -> dict[int, Topic]:
    """The topic of the moment that contained each message, by the number of the message; one query."""
    pairs = TopicMessage.objects.filter(owner=owner_id, message__in=list(messages))
    found = pairs.filter(topic__in=topics_at(moment).filter(owner=owner_id)).select_related("topic")
    return {pair.message_id: pair.topic for pair in found}


def first_moment(owner_id: int) -> datetime | None:
    """When the first topics of this memory were made; None for a memory that never had any."""
    sides = EditedTopic.objects.filter(owner=owner_id, side=Side.IN).order_by("edit__at", "edit_id")
    return sides.values_list("edit__at", flat=True).first()
