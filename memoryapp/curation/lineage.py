"""The lineage of a topic: what became of it, and where it came from. Messages outlive every edit. So the successors of
a retired topic are the live topics that hold its messages now, no matter how many edits lie between. A topic that an
undo brought back is its own successor."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from memoryapp.engine.beside import table_beside
from memoryapp.models import EditedTopic, Topic, TopicEdit, TopicMessage
from memoryapp.platform.statements import fetched

MOST_EDITS = 50
MOST_FORMER = 100
MOST_SUCCESSORS = 20
# The share of a topic's messages that an heir must hold, as a divisor: a single moved message makes no heir.
LEAST_SHARE = 20

_SQL = table_beside(__file__)
HOLDERS: str = _SQL["holders"]
FORMER_OF_EACH: str = _SQL["former_of_each"]
COME_FROM: str = _SQL["come_from"]

MOVED: str = _SQL["moved"]


@dataclass(frozen=True, slots=True)
class Lineage:
    """The edits that a topic took part in, newest first; the topics it was last made from, and those made from it."""

    edits: tuple[TopicEdit, ...]
    parents: tuple[Topic, ...]
    children: tuple[Topic, ...]


def successors(owner_id: int, ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The live topics that hold the messages of each of the owner's topics in ``ids``; those with most messages first.
    A live topic is its own successor. A topic whose messages were all withdrawn has none. Topics of other owners are
    left out."""
    return {old: tuple(live for live, _is_large in found) for old, found in _holders(owner_id, ids).items()}


def successor_topics(topic: Topic) -> list[Topic]:
    ids = successors(topic.owner_id, [topic.pk]).get(topic.pk, ())[:MOST_SUCCESSORS]
    found = Topic.objects.of(topic.owner_id).in_bulk(ids)
    return [found[number] for number in ids if number in found]


def heirs(owner_id: int, ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The ``successors`` that hold at least a twentieth of a topic's messages; they inherit its facts."""
    return {old: tuple(live for live, is_large in found if is_large) for old, found in _holders(owner_id, ids).items()}


def _holders(owner_id: int, ids: Iterable[int]) -> dict[int, list[tuple[int, bool]]]:
    found: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for old, live, is_large in fetched(HOLDERS, [LEAST_SHARE, owner_id, list(dict.fromkeys(ids))]):
        found[old] += [] if live is None else [(live, is_large)]
    return found


def former(topic: Topic) -> tuple[int, ...]:
    """Earlier topics from which this topic got at least a twentieth of their messages, latest first. What was noted
    about them, and what runs did with them, concerns the same messages."""
    found = former_of_each(topic.owner_id, [topic.pk]).get(topic.pk, ())
    return tuple(sorted(found, reverse=True)[:MOST_FORMER])


def former_of_each(owner_id: int, topics: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """``former`` of many topics at once, by number; those without any are left out."""
    found: dict[int, tuple[int, ...]] = {}
    for topic, old in fetched(FORMER_OF_EACH, {"owner": owner_id, "topics": list(topics), "share": LEAST_SHARE}):
        found[topic] = (*found.get(topic, ()), old)
    return found


def come_from(owner_id: int, topics: Iterable[int]) -> set[int]:
    """The live topics that have one of these among their ``former`` ones."""
    return {topic for (topic,) in fetched(COME_FROM, {"owner": owner_id, "topics": list(topics), "share": LEAST_SHARE})}


def moved_counts(owner_id: int, edits: Iterable[int]) -> dict[int, int]:
    """How many messages each edit in ``edits`` moved to another topic; counted for moves and for undone moves."""
    counts: Counter[int] = Counter()
    stayed: dict[tuple[int, int], int] = defaultdict(int)
    for edit, topic, is_same, count in fetched(MOVED, [owner_id, list(edits)]):
        counts[edit] += count
        stayed[edit, topic] = max(stayed[edit, topic], count if is_same else 0)
    for (edit, _topic), count in stayed.items():
        counts[edit] -= count
    return dict(counts)


def lineage(topic: Topic, until: datetime | None = None) -> Lineage:
    """The topic's last fifty edits, those made by ``until``, and its neighbours in time, without their messages."""
    sides = EditedTopic.objects.filter(owner=topic.owner_id, topic=topic)
    own = {
        side.edit_id: side
        for side in (sides.filter(edit__at__lte=until) if until else sides)
        .select_related("edit__call")
        .defer("edit__call__events")
        .order_by("-edit_id")[:MOST_EDITS]
    }
    # The first edit that put a topic in created it; later ones only brought it back.
    made = EditedTopic.objects.filter(topic=topic, side=EditedTopic.Side.IN).order_by("edit_id").first()
    left = next((side for side in own.values() if side.side == EditedTopic.Side.OUT), None)
    return Lineage(
        tuple(side.edit for side in own.values()),
        _across(made, EditedTopic.Side.OUT),
        _across(left, EditedTopic.Side.IN) if not topic.is_live else (),
    )


def _across(side: EditedTopic | None, other: EditedTopic.Side) -> tuple[Topic, ...]:
    if side is None:
        return ()
    topics = Topic.objects.filter(owner=side.owner_id, editedtopic__edit=side.edit_id, editedtopic__side=other)
    return tuple(topics.order_by("started_at", "pk"))


# Blame: which edit put each message into a topic, and which one wrote its summary.
#
# A topic is followed back through the edits that made it, as long as it stayed the same matter: the earlier topic
# gave most of its messages to this one, and this one got most of its messages from the earlier one. So the larger
# part of a split continues the topic, and the smaller part begins with the split. A message was put in by the last
# edit before which it was elsewhere. An undo brings the earlier topic itself back, so what was undone leaves no trace
# here.

MOST_STEPS = 100
# The first edit that put a topic in made it; later ones only brought it back.
_MADE = """(
    SELECT min(side.edit_id) FROM memoryapp_editedtopic side WHERE side.topic_id = {topic} AND side.side = 'in'
)"""
_NEAREST: str = _SQL["nearest"]
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
    line = fetched(LINE, {"topic": topic.pk, "owner": topic.owner_id, "most": MOST_STEPS})
    topics = Topic.objects.of(topic.owner_id).in_bulk([number for number, _edit in line])
    edits = (
        TopicEdit.objects.filter(owner=topic.owner_id)
        .select_related("call")
        .defer("call__events")
        .in_bulk([edit for _number, edit in line if edit])
    )
    return Blame([TopicStep(topics[number], edits.get(edit)) for number, edit in line])
