"""Blame: which edit put each message into a topic, and which one wrote its summary.

A topic is followed back through the edits that made it, as long as it stayed the same matter: the earlier topic gave
most of its messages to this one, and this one got most of its messages from the earlier one. So the larger part of a
split continues the topic, and the smaller part begins with the split. A message was put in by the last edit before
which it was elsewhere. An undo brings the earlier topic itself back, so what was undone leaves no trace here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from django.db import connection

from memoryapp.models import Topic, TopicEdit, TopicMessage

MOST_STEPS = 100
# The first edit that put a topic in made it; later ones only brought it back.
_MADE = """(
    SELECT min(side.edit_id) FROM memoryapp_editedtopic side WHERE side.topic_id = {topic} AND side.side = 'in'
)"""
# Which of the topics on one side of an edit shares most messages with a topic on the other side.
_NEAREST = """
    SELECT shared.topic_id FROM memoryapp_editedtopic beside
    JOIN memoryapp_topicmessage shared ON shared.topic_id = beside.topic_id
    JOIN memoryapp_topicmessage own ON own.message_id = shared.message_id AND own.topic_id = {topic}
    WHERE beside.edit_id = line.edit_id AND beside.side = '{side}'
    GROUP BY shared.topic_id ORDER BY count(*) DESC, shared.topic_id LIMIT 1
"""
LINE = f"""
WITH RECURSIVE line AS (
    SELECT t.id AS topic_id, {_MADE.format(topic="t.id")} AS edit_id, 0 AS depth
    FROM memoryapp_topic t WHERE t.id = %(topic)s AND t.owner_id = %(owner)s
    UNION ALL
    SELECT earlier.topic_id, {_MADE.format(topic="earlier.topic_id")}, line.depth + 1
    FROM line CROSS JOIN LATERAL ({_NEAREST.format(topic="line.topic_id", side="out")}) earlier
    WHERE line.depth < %(most)s AND line.topic_id = ({_NEAREST.format(topic="earlier.topic_id", side="in")})
)
SELECT topic_id, edit_id FROM line ORDER BY depth
"""


@dataclass(frozen=True, slots=True)
class TopicStep:
    """A topic of the line, and the edit that made it, which an erasure may have deleted."""

    topic: Topic
    edit: TopicEdit | None


@dataclass(frozen=True, slots=True)
class SummaryVersion:
    """A summary, and the step that wrote it; ``before`` is the summary that it replaced."""

    step: TopicStep
    before: str

    @property
    def summary(self) -> str:
        return self.step.topic.summary


@dataclass(frozen=True, slots=True)
class Blame:
    """``line`` leads from the topic back to the first one that was the same matter."""

    line: Sequence[TopicStep]

    @property
    def versions(self) -> list[SummaryVersion]:
        """The summaries from the present one back, each once for each time that it was written."""
        found = []
        for step, earlier in zip(self.line, (*self.line[1:], None), strict=True):
            before = earlier.topic.summary if earlier else ""
            if earlier is None or step.topic.summary != before:
                found.append(SummaryVersion(step, before))
        return found

    def put_in(self, messages: Iterable[int]) -> dict[int, TopicStep]:
        """The step that put each of these messages of the topic in; one query."""
        owner, numbers = self.line[0].topic.owner_id, [step.topic.pk for step in self.line]
        pairs = TopicMessage.objects.filter(owner=owner, topic__in=numbers, message__in=list(messages))
        places: dict[int, set[int]] = defaultdict(set)
        for message, topic in pairs.values_list("message", "topic"):
            places[message].add(topic)
        return {message: self._first_step(topics) for message, topics in places.items() if numbers[0] in topics}

    def _first_step(self, topics: set[int]) -> TopicStep:
        """The earliest step since which the message was always in the topic."""
        return list(takewhile(lambda step: step.topic.pk in topics, self.line))[-1]


def blame(topic: Topic) -> Blame:
    """Three queries, however long the line is."""
    with connection.cursor() as cursor:
        cursor.execute(LINE, {"topic": topic.pk, "owner": topic.owner_id, "most": MOST_STEPS})
        line = cursor.fetchall()
    topics = Topic.objects.of(topic.owner_id).in_bulk([number for number, _edit in line])
    edits = (
        TopicEdit.objects.filter(owner=topic.owner_id)
        .select_related("call")
        .defer("call__events")
        .in_bulk([edit for _number, edit in line if edit])
    )
    return Blame([TopicStep(topics[number], edits.get(edit)) for number, edit in line])
