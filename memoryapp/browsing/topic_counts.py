"""How often recent runs showed, read, chose and used each of many topics, at a fixed number of queries."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from memoryapp import curation
from memoryapp.browsing.topic_runs import RUNS_LOOKED_AT
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.models import Run
from memoryapp.models.run import SHOWN_IDS

# Of each run the ids of what it showed, of what it read and of what it chose; the long payloads are not read.
NAMED = f"""
SELECT kind, {SHOWN_IDS.format(payload="payload")},
       COALESCE(payload -> 'requested', '[]') || COALESCE(payload -> 'dropped', '[]'),
       jsonb_path_query_array(payload, '$.selected[*].id'), run_id
FROM memoryapp_runevent
WHERE owner_id = %(owner)s AND run_id = ANY(%(runs)s) AND kind IN ('candidates_found', 'run_finished')
"""


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """In how many of the recent runs a topic was shown to the model, read or chosen, chosen, and used in an answer."""

    candidate: int = 0
    read: int = 0
    chosen: int = 0
    used: int = 0

    def __bool__(self) -> bool:
        return bool(self.candidate or self.read)


def topic_counts(owner_id: int, topics: Collection[int], until: datetime | None = None) -> dict[int, TopicCounts]:
    """The counts of each of the owner's topics, with the earlier topics from which it came, in the last few hundred
    runs by hand (before ``until``), as ``topic_runs`` has them. Three queries for any number of topics."""
    asked = Run.objects.of(owner_id).by_hand().made_here().order_by("-created_at")
    asked = asked.filter(created_at__lte=until) if until else asked
    recent = dict(asked.values_list("pk", "delivered")[:RUNS_LOOKED_AT])
    if not recent or not topics:
        return dict.fromkeys(topics, TopicCounts())
    candidate, read, chosen, used = (defaultdict[str, set[object]](set) for _kind in range(4))
    with connection.cursor() as cursor:
        cursor.execute(NAMED, {"owner": owner_id, "runs": list(recent)})
        for kind, shown, opened, selected, run in cursor.fetchall():
            if kind == "candidates_found":
                _note(candidate, _ids(shown), run)
            else:
                _note(read, [*_ids(opened), *_ids(selected)], run)
                _note(chosen, _ids(selected), run)
    for run, delivered in recent.items():
        _note(used, [use["id"] for use in (delivered or {}).get("uses", ())], run)
    former = curation.former_of_each(owner_id, topics)
    return {
        number: TopicCounts(
            *(
                len(set[object]().union(*(each.get(topic_id(same), ()) for same in (number, *former.get(number, ())))))
                for each in (candidate, read, chosen, used)
            )
        )
        for number in topics
    }


def recalled_topics(owner_id: int) -> set[int]:
    """The topics of which ``topic_counts`` says something today: recent runs showed, read or chose them, or topics from
    which they came. Two queries and one for the recent runs."""
    asked = Run.objects.of(owner_id).by_hand().made_here().order_by("-created_at")
    recent = list(asked.values_list("pk", flat=True)[:RUNS_LOOKED_AT])
    with connection.cursor() as cursor:
        cursor.execute(NAMED, {"owner": owner_id, "runs": recent})
        named = {id for _kind, *lists, _run in cursor.fetchall() for ids in lists for id in _ids(ids)}
    topics = {number for id in named if (number := parse_topic_id(id))}
    return topics | curation.come_from(owner_id, topics)


def _ids(value: object) -> list[str]:
    found = json.loads(value) if isinstance(value, str) else value
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _note(runs: Mapping[str, set[object]], ids: Iterable[str], run: object) -> None:
    for id in ids:
        runs[id].add(run)
