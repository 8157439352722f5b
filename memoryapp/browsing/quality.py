"""The quality of memories in numbers: what is missing, doubtful or never used, each as its list counts it.

Eight queries for any number of chat users and rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet

from memoryapp.browsing.foreign import FOREIGN_SUMMARIES
from memoryapp.browsing.topic_runs import RUNS_LOOKED_AT
from memoryapp.models import ChatUser, Fact, Message, Person
from memoryapp.models.run import SHOWN_IDS

# Who is mentioned less than that is seldom worth a row of their own.
FEW_MENTIONS = 2
WEEK = timedelta(days=7)
# An active session that is quiet for longer has been forgotten by the worker, or waits for more messages.
LONG_QUIET = timedelta(days=1)

TOPICS = """
SELECT owner_id, count(*), count(*) FILTER (WHERE summary <> '' AND alike > 1), count(*) FILTER (WHERE NOT has_facts),
       count(*) FILTER (WHERE is_segmented)
FROM (
    SELECT t.owner_id, t.summary, count(*) OVER (PARTITION BY t.owner_id, t.summary) AS alike,
           EXISTS (SELECT FROM memoryapp_fact f WHERE f.owner_id = t.owner_id AND f.topic_id = t.id) AS has_facts,
           made.by_model IS FALSE AS is_segmented
    FROM memoryapp_topic t LEFT JOIN (
        SELECT et.topic_id, bool_or(c.id IS NOT NULL AND c.outcome = '') AS by_model
        FROM memoryapp_topicedit e
        JOIN memoryapp_editedtopic et ON et.edit_id = e.id AND et.side = 'in'
        LEFT JOIN memoryapp_agentcall c ON c.id = e.call_id
        WHERE e.owner_id = ANY(%(owners)s::bigint[]) AND e.kind = 'archive' GROUP BY et.topic_id
    ) made ON made.topic_id = t.id
    WHERE t.owner_id = ANY(%(owners)s::bigint[]) AND t.is_live
) topic GROUP BY owner_id
"""
FOREIGN = f"""
SELECT owner_id, count(*) FROM memoryapp_topic
WHERE owner_id = ANY(%s::bigint[]) AND is_live AND id IN ({FOREIGN_SUMMARIES}) GROUP BY owner_id
"""
# Each owner's last runs by hand, and what they showed to a model.
RECALLED = f"""
SELECT t.owner_id, count(*) FROM memoryapp_topic t
WHERE t.owner_id = ANY(%(owners)s::bigint[]) AND t.is_live AND 'Topic:' || t.id IN (
    SELECT jsonb_array_elements_text({SHOWN_IDS.format(payload="e.payload")})
    FROM unnest(%(owners)s::bigint[]) AS listed (owner)
    CROSS JOIN LATERAL (
        SELECT id FROM memoryapp_run WHERE owner_id = listed.owner AND evaluation_id IS NULL AND origin = ''
        ORDER BY created_at DESC LIMIT {RUNS_LOOKED_AT}
    ) run
    JOIN memoryapp_runevent e ON e.run_id = run.id AND e.kind = 'candidates_found'
) GROUP BY t.owner_id
"""
# Chats of which messages are in no topic, and whose last one is that long ago.
QUIET = """
SELECT owner_id, count(*) FROM (
    SELECT owner_id FROM memoryapp_message
    WHERE owner_id = ANY(%(owners)s::bigint[]) AND topic_id IS NULL AND NOT is_withdrawn
    GROUP BY owner_id, session HAVING max(sent_at) < %(before)s
) quiet GROUP BY owner_id
"""


@dataclass(frozen=True, slots=True)
class Quality:
    """One memory. ``waiting`` messages are in no topic, ``quiet`` counts the chats of them that are silent for a
    day; ``segmented`` topics were cut by the segmenter, ``unused`` ones shown by none of the last runs. The summaries
    of ``equal`` ones are another's too, those of ``foreign`` ones are in other letters than their messages.
    ``replaced`` facts ceased to be true in the last week, ``seldom`` people are mentioned once or never.
    """

    topics: int = 0
    equal: int = 0
    factless: int = 0
    segmented: int = 0
    foreign: int = 0
    unused: int = 0
    messages: int = 0
    waiting: int = 0
    quiet: int = 0
    people: int = 0
    seldom: int = 0
    facts: int = 0
    replaced: int = 0

    def __add__(self, other: Quality) -> Quality:
        return Quality(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


def qualities(owners: Sequence[ChatUser], *, now: datetime) -> dict[int, Quality]:
    """The quality of each of these memories, by the number of its chat user."""
    ids = [owner.pk for owner in owners]
    sums: dict[int, dict[str, int]] = {pk: {} for pk in ids}
    _add(sums, _rows(TOPICS, {"owners": ids}), "topics", "equal", "factless", "segmented")
    _add(sums, _rows(FOREIGN, [ids, ids]), "foreign")
    recalled = dict(_rows(RECALLED, {"owners": ids}))
    _add(sums, [(pk, sums[pk].get("topics", 0) - recalled.get(pk, 0)) for pk in ids], "unused")
    messages = Message.objects.filter(owner__in=ids)
    # Each of the two counts reads an index of its own, and no text.
    _add(sums, _counted(messages.present(), n=Count("pk")), "messages")
    _add(sums, _counted(messages.active(), n=Count("pk")), "waiting")
    _add(sums, _rows(QUIET, {"owners": ids, "before": now - LONG_QUIET}), "quiet")
    people = Person.objects.filter(owner__in=ids)
    _add(sums, _counted(people, n=Count("pk"), few=Count("pk", Q(mention_count__lt=FEW_MENTIONS))), "people", "seldom")
    facts = Fact.objects.filter(owner__in=ids)
    lately = Count("pk", Q(superseded_at__gte=now - WEEK))
    _add(sums, _counted(facts, n=Count("pk"), replaced=lately), "facts", "replaced")
    return {pk: Quality(**found) for pk, found in sums.items()}


def _add(sums: Mapping[int, dict[str, int]], rows: Sequence[Sequence[Any]], *names: str) -> None:
    for pk, *numbers in rows:
        sums[pk].update(zip(names, numbers, strict=True))


def _counted(rows: QuerySet[Any], **counts: Count) -> list[tuple[int, ...]]:
    return list(rows.order_by().values("owner").annotate(**counts).values_list("owner", *counts))


def _rows(sql: str, values: Mapping[str, Any] | Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())
