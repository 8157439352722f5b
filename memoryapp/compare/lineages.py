"""Which topics of several runs are one matter: those that hold the same messages, before and after edits.

Topics never change, and retired ones keep their messages. So two topics are of one lineage if the later one holds at
least a twentieth of the messages of the retired one, however many edits lie between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from memoryapp.curation.lineage import LEAST_SHARE, successors
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.models import Topic, TopicMessage

RELATED = """
SELECT old.id, other.topic_id FROM memoryapp_topic old
JOIN memoryapp_topicmessage own ON own.topic_id = old.id
JOIN memoryapp_topicmessage other ON other.message_id = own.message_id AND other.topic_id <> old.id
WHERE old.owner_id = %(owner)s AND old.id = ANY(%(retired)s) AND other.topic_id = ANY(%(ids)s)
GROUP BY old.id, other.topic_id HAVING count(*) * %(share)s >= old.message_count
"""


@dataclass(frozen=True, slots=True)
class Matter:
    """The ``ids`` of one matter, the newest one first; ``now`` are the live topics if it is retired, ``summary`` that
    of the newest id."""

    ids: tuple[str, ...]
    summary: str
    now: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.ids[0]


def lineages(owner_id: int, ids: Iterable[str], sessions: Mapping[str, Sequence[int]]) -> list[Matter]:
    """Every id in one lineage; four statements. ``sessions`` are the active sessions among them with their messages."""
    wanted = list(dict.fromkeys(ids))
    numbers = {number: id for id in wanted if (number := parse_topic_id(id)) is not None and number > 0}
    rows = Topic.objects.of(owner_id).filter(pk__in=list(numbers)).values_list("pk", "is_live", "summary")
    known = {topic_id(pk): (is_live, summary) for pk, is_live, summary in rows}
    retired = [number for number, id in numbers.items() if not known.get(id, (False,))[0]]
    joined = _Matters(wanted)
    for old, other in _related(owner_id, retired, list(numbers)):
        joined.join(topic_id(old), topic_id(other))
    for session, other in _archived(owner_id, sessions, list(numbers)):
        joined.join(session, topic_id(other))
    heirs = successors(owner_id, retired) if retired else {}
    return [_lineage(group, known, heirs) for group in joined.groups()]


def _lineage(
    group: Sequence[str], known: Mapping[str, tuple[bool, str]], heirs: Mapping[int, tuple[int, ...]]
) -> Matter:
    newest = sorted(group, key=lambda id: (known.get(id, (False, ""))[0], parse_topic_id(id) or 0), reverse=True)
    is_live, summary = known.get(newest[0], (False, ""))
    now = () if is_live else tuple(topic_id(live) for live in heirs.get(parse_topic_id(newest[0]) or 0, ()))
    return Matter(tuple(newest), summary, now)


def _related(owner_id: int, retired: Sequence[int], ids: Sequence[int]) -> list[tuple[int, int]]:
    if not retired:
        return []
    with connection.cursor() as cursor:
        cursor.execute(RELATED, {"owner": owner_id, "retired": list(retired), "ids": list(ids), "share": LEAST_SHARE})
        return [(old, other) for old, other in cursor.fetchall()]


def _archived(owner_id: int, sessions: Mapping[str, Sequence[int]], ids: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Each session with the topics that hold at least a twentieth of its messages."""
    session_of = {message: id for id, listed in sessions.items() for message in listed}
    if not session_of:
        return
    listed = TopicMessage.objects.filter(owner=owner_id, message__in=list(session_of), topic__in=list(ids))
    counts = Counter((session_of[message], topic) for message, topic in listed.values_list("message_id", "topic_id"))
    yield from (pair for pair, count in counts.items() if count * LEAST_SHARE >= len(sessions[pair[0]]))


class _Matters:
    """Disjoint groups of ids (Tarjan, 1975), in the order in which their first ids were given."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._root = {id: id for id in ids}

    def _of(self, id: str) -> str:
        while self._root[id] != id:
            self._root[id] = self._root[self._root[id]]
            id = self._root[id]
        return id

    def join(self, one: str, other: str) -> None:
        self._root[self._of(other)] = self._of(one)

    def groups(self) -> list[list[str]]:
        found: dict[str, list[str]] = {}
        for id in self._root:
            found.setdefault(self._of(id), []).append(id)
        return list(found.values())
