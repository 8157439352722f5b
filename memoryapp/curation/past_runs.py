"""Past runs as questions with a known answer: the query, and the messages that answered it.

A golden question names its messages, as does a run that somebody reported as a miss. For any other run they are derived
from its selection: the messages with the excerpts, and for a topic that was selected without an excerpt the messages of
its best passage, which only a search can find.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from memoryapp.curation.rescoring import Query, vector_of
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.parameters import Limits
from memoryapp.models.run import CANDIDATE_FIELD
from memoryapp.runs.parameters import of_run

MOST_BY_HAND = 200
MOST_GOLDEN = 500

# Also includes topics that held these messages earlier: a run of last month saw what today's topic was made from.
FORMER = """
SELECT DISTINCT listed.topic_id FROM memoryapp_message m
JOIN memoryapp_topicmessage listed ON listed.message_id = m.id
WHERE m.owner_id = %(owner)s AND m.topic_id = ANY(%(topics)s::bigint[])
"""
RUNS = f"""
WITH looked_at AS (
    (
        SELECT id, evidence <> '[]' AS is_golden FROM memoryapp_run
        WHERE owner_id = %(owner)s AND evaluation_id IS NULL AND origin = '' AND state = 'finished'
        ORDER BY created_at DESC, id DESC LIMIT %(by_hand)s
    )
    UNION ALL
    (
        SELECT DISTINCT ON (query) id, true FROM memoryapp_run
        WHERE owner_id = %(owner)s AND evaluation_id IS NOT NULL AND evidence <> '[]' AND state = 'finished'
        ORDER BY query, created_at DESC, id DESC LIMIT %(golden)s
    )
    UNION
    SELECT id, evidence <> '[]' FROM memoryapp_run
    WHERE owner_id = %(owner)s AND id = %(also)s AND origin = '' AND state = 'finished'
)
SELECT r.id, r.query, r.created_at, l.is_golden, r.parameters, r.evidence, q.payload ->> 'enriched',
       jsonb_path_query_array(e.payload, '$.selected[*]'), v.profile_id,
       halfvec_send(v.vector), halfvec_send(v.typed_vector),
       r.strategy = 'flash' AND r.fallback = '' AND s.payload ->> 'model' IS NOT DISTINCT FROM %(scorer)s
FROM looked_at l
JOIN memoryapp_run r ON r.id = l.id
JOIN memoryapp_runevent q ON q.run_id = r.id AND q.kind = 'query_enriched'
JOIN memoryapp_runevent f ON f.run_id = r.id AND f.kind = 'candidates_found'
JOIN memoryapp_runevent e ON e.run_id = r.id AND e.kind = 'run_finished'
LEFT JOIN memoryapp_runevent s ON s.run_id = r.id AND s.kind = 'run_started'
LEFT JOIN memoryapp_queryvector v ON v.run_id = r.id
WHERE NOT jsonb_path_exists(f.payload, '$.understood.where.* ? (@ <> "")')
AND (%(topics)s::bigint[] IS NULL OR {CANDIDATE_FIELD.format(payload="f.payload", name="id")} ?| %(names)s
    OR l.is_golden AND EXISTS (
    SELECT FROM jsonb_array_elements_text(r.evidence) named (id)
    JOIN memoryapp_message m ON m.id = named.id::bigint AND m.owner_id = %(owner)s
    WHERE m.topic_id = ANY(%(topics)s::bigint[])
))
ORDER BY r.created_at DESC, r.id DESC
"""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A finished run; ``shown`` is how many topics the model was shown, ``by_scorer`` that the embedded one chose.

    ``messages`` are known to answer it; ``chosen`` are selected topics, live or retired, whose best passage answers it;
    ``handed`` are all that it selected.
    """

    id: UUID
    text: str
    when: datetime
    is_golden: bool
    shown: int
    query: Query
    messages: tuple[int, ...]
    chosen: tuple[int, ...]
    limits: Limits
    by_scorer: bool
    handed: frozenset[int] = frozenset()


def runs_that_saw(owner_id: int, topics: Sequence[int] | None, also: UUID | None = None) -> list[PastRun]:
    """The owner's runs that involve these topics, newest first; with None, whatever they involve.

    Considered are the latest 200 runs by hand, the latest run of each golden question and the run ``also``. A run
    counts if it found one of the topics or an earlier version of it; a golden question also if its answer is in one of
    them. A run whose search was restricted to days, chats or authors is left out, because messages it never saw might
    answer it. Two statements.
    """
    numbers = None if topics is None else list(topics)
    values: dict[str, Any] = {"owner": owner_id, "topics": numbers, "by_hand": MOST_BY_HAND, "golden": MOST_GOLDEN}
    values |= {"scorer": EMBEDDED_MODEL, "also": also}
    with connection.cursor() as cursor:
        cursor.execute(FORMER, values)
        names = [topic_id(number) for (number,) in cursor.fetchall()]
        cursor.execute(RUNS, {**values, "names": names})
        return [_run(*row) for row in cursor.fetchall()]


def _run(
    id: UUID,
    text: str,
    when: datetime,
    is_golden: bool,
    parameters: str,
    evidence: str,
    enriched: str,
    selected: str,
    profile: int | None,
    vector: bytes | None,
    typed_vector: bytes | None,
    by_scorer: bool,
) -> PastRun:
    query = Query(enriched)
    if vector is not None and profile is not None:
        typed = None if typed_vector is None else Query(text, vector_of(typed_vector), profile)
        query = Query(enriched, vector_of(vector), profile, typed)
    picked = json.loads(selected)
    messages, chosen = (tuple(json.loads(evidence)), ()) if is_golden else _evidence_of(picked)
    handed = frozenset(number for item in picked if (number := parse_topic_id(item["id"])))
    asked = of_run(json.loads(parameters))
    limits = asked.limits(asked.seconds)
    return PastRun(id, text, when, is_golden, asked.candidates, query, messages, chosen, limits, by_scorer, handed)


def _evidence_of(selected: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The messages with excerpts, and the topics selected without one."""
    messages: list[int] = []
    chosen: list[int] = []
    for item in selected:
        quoted = [piece["message"] for piece in item.get("excerpt", ()) if piece.get("message") is not None]
        messages += quoted
        number = parse_topic_id(item["id"])
        if not quoted and number is not None:
            chosen.append(number)
    return tuple(dict.fromkeys(messages)), tuple(chosen)
