"""The reach of an erasure: the topics, facts and artifacts that concern, or may concern, the erased messages.

A topic is touched if it ever listed one of them, or if an edit made it from such a topic and it shares messages with
it: its summary may contain their words. Facts and artifacts are erased if they came from a topic that listed one, or
from the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import connection
from django.db.models import Q

from memoryapp.curation import wordings
from memoryapp.engine.memory import item_id, topic_id
from memoryapp.models import Artifact, Erasure, Fact, Finding, KnowledgeEdit, Message, Person, Topic, TopicMessage

TOUCHED = """
WITH RECURSIVE touched AS (
    SELECT DISTINCT topic_id AS id FROM memoryapp_topicmessage
    WHERE owner_id = %(owner)s AND message_id = ANY(%(messages)s)
    UNION
    SELECT came.topic_id FROM touched
    JOIN memoryapp_editedtopic gone ON gone.topic_id = touched.id AND gone.side = 'out'
    JOIN memoryapp_topicedit e ON e.id = gone.edit_id AND e.kind <> 'undo'
    JOIN memoryapp_editedtopic came ON came.edit_id = e.id AND came.side = 'in'
    WHERE EXISTS (
        SELECT FROM memoryapp_topicmessage was JOIN memoryapp_topicmessage now ON now.message_id = was.message_id
        WHERE was.topic_id = touched.id AND now.topic_id = came.topic_id)
)
SELECT id FROM touched ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Reach:
    """Numbers of rows: the topics ``touched``; of these, those ``listing`` an erased message; of these, those left
    ``empty``."""

    messages: tuple[int, ...] = ()
    touched: tuple[int, ...] = ()
    listing: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    artifacts: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    findings: tuple[int, ...] = ()

    @property
    def ids(self) -> list[str]:
        """The ids of the rows in runs and in calls of agents."""
        return [
            *map(topic_id, self.touched),
            *(item_id("Person", number) for number in self.people),
            *(item_id("Artifact", number) for number in self.artifacts),
        ]

    @property
    def rewritten(self) -> tuple[int, ...]:
        """The touched topics that remain; they get new summaries."""
        return tuple(number for number in self.touched if number not in set(self.empty))


@dataclass(frozen=True, slots=True)
class Target:
    """What a person wants to erase from one memory: messages, a person, or both."""

    owner_id: int
    messages: tuple[int, ...] = ()
    person: int | None = None
    kind: Erasure.Kind = field(default=Erasure.Kind.MESSAGES)

    @classmethod
    def of(cls, erasure: Erasure) -> Target:
        return cls(erasure.owner_number, tuple(erasure.messages), erasure.person, Erasure.Kind(erasure.kind))


def reach_of(target: Target) -> Reach:
    """What is erased or changed with the target, as the rows are now; a message includes all its wordings."""
    owner, messages = target.owner_id, wordings(target.owner_id, target.messages)
    listing = TopicMessage.objects.filter(owner=owner, message__in=messages).values_list("topic", flat=True)
    numbers = sorted(set(listing))
    people = Person.objects.filter(owner=owner, pk=target.person) if target.person else Person.objects.none()
    return Reach(
        messages=tuple(Message.objects.of(owner).filter(pk__in=messages).order_by("pk").values_list("pk", flat=True)),
        touched=_touched(owner, messages),
        listing=tuple(numbers),
        empty=_left_empty(owner, numbers, messages),
        facts=tuple(_facts(owner, numbers)),
        artifacts=tuple(_artifacts(owner, messages)),
        people=tuple(people.values_list("pk", flat=True)),
        findings=tuple(_findings(target, messages, numbers)),
    )


def _touched(owner: int, messages: Sequence[int]) -> tuple[int, ...]:
    with connection.cursor() as cursor:
        cursor.execute(TOUCHED, {"owner": owner, "messages": list(messages)})
        return tuple(number for (number,) in cursor.fetchall())


def _left_empty(owner: int, listing: Sequence[int], messages: Sequence[int]) -> tuple[int, ...]:
    topics = Topic.objects.of(owner).filter(pk__in=listing)
    rest = TopicMessage.objects.filter(topic__in=listing).exclude(message__in=messages).values("topic")
    return tuple(topics.exclude(pk__in=rest).order_by("pk").values_list("pk", flat=True))


def _facts(owner: int, listing: Sequence[int]) -> list[int]:
    return sorted(Fact.objects.filter(owner=owner, topic__in=listing).values_list("pk", flat=True))


def _artifacts(owner: int, messages: Sequence[int]) -> list[int]:
    rows = Artifact.objects.filter(Q(message__in=messages), owner=owner)
    return sorted(rows.values_list("pk", flat=True))


def _findings(target: Target, messages: Sequence[int], listing: Sequence[int]) -> list[int]:
    """Findings in the messages or in topics that listed one, and findings about the person."""
    found = Q(findingmessage__message__in=messages) | Q(topic__in=listing)
    if target.person:
        found |= Q(noun=KnowledgeEdit.Noun.PERSON) & (Q(row=target.person) | Q(target=target.person))
    return sorted(set(Finding.objects.filter(found, owner=target.owner_id).values_list("pk", flat=True)))
