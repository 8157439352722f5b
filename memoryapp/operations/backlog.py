"""The backlog as a metric: rows whose work is not done yet, counted when `/metrics` is read.

Work is a state in a row, so there is no other queue to measure. Each count stops at a bound, and a count in a large
table uses an index, so `/metrics` can be read every few seconds at little cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db import connection
from django.db.backends.utils import CursorWrapper
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memoryapp.engine.embeddings import Profile
from memoryapp.models import EmbeddingProfile

MOST = 10_000

RUNS = """
SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'running')
FROM (SELECT state FROM memoryapp_run WHERE state <> 'finished' AND origin = '' LIMIT %(most)s) open
"""
# Vectors are made in the order of passages, so the newest passages lack them.
PASSAGES = """
SELECT count(*) FROM (SELECT id FROM memoryapp_passage ORDER BY id DESC LIMIT %(most)s) p
WHERE NOT EXISTS (
    SELECT FROM memoryapp_passagevector v WHERE v.passage_id = p.id AND v.profile_id = %(profile)s
)
"""
SESSIONS = """
SELECT count(*) FROM (
    SELECT FROM (
        SELECT owner_id, session, sent_at, role FROM memoryapp_message
        WHERE topic_id IS NULL AND NOT is_withdrawn LIMIT %(most)s
    ) active
    GROUP BY owner_id, session HAVING max(sent_at) < now() - make_interval(secs =>
        CASE WHEN bool_or(role = 'peer') AND NOT bool_or(role = 'assistant') THEN %(people)s ELSE %(pause)s END
    )
) due
"""
# Live topics that the archivist will read: not those that wait for a person, nor those of memories without extraction.
UNREAD = """
is_live AND NOT facts_extracted
AND owner_id NOT IN (SELECT id FROM memoryapp_chatuser WHERE extraction = 'off')
AND id NOT IN (SELECT topic_id FROM memoryapp_unreadtopic WHERE state = 'failed')
"""
# The other queues: rows of a table that meet a condition.
ROWS = {
    "imports_waiting": ("importfile", "state IN ('rehearsing', 'importing')"),
    "suggestions_open": ("suggestion", "state = 'open'"),
    "topics_unread": ("topic", UNREAD),
    "artifacts_unread": ("artifact", "state IN ('pending', 'processing')"),
    "erasures_unfinished": ("erasure", "ended_at IS NULL"),
    "webhook_messages_waiting": ("webhookdelivery", "state = 'waiting'"),
}


class BacklogCollector(Collector):
    """Counts what waits: imports, sessions, passages, suggestions, artifacts, runs, erasures, messages to webhooks.

    ``wanted`` is the embedding profile that the settings name: if another one serves, it is to take over.
    """

    def __init__(self, wanted: Profile) -> None:
        self._wanted = wanted

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields one gauge with a label for each queue. Raises DatabaseError."""
        family = GaugeMetricFamily(
            "mnemoscope_queue_depth", f"Work that is not done yet, counted up to {MOST}.", labels=["queue"]
        )
        for name, depth in _depths(self._wanted).items():
            family.add_metric([name], depth)
        yield family


def _depths(wanted: Profile) -> dict[str, int]:
    values = {"most": MOST, "pause": settings.CHUNK_INTERVAL, "people": settings.CHUNK_INTERVAL_PEOPLE}
    with connection.cursor() as cursor:
        cursor.execute(RUNS, values)
        pending, running = cursor.fetchone()
        passages = _passages(cursor, _serving())
        next_passages = _passages(cursor, following) if (following := _next(wanted)) else 0
        cursor.execute(SESSIONS, values)
        (sessions,) = cursor.fetchone()
        counts = {name: _count(cursor, *rows) for name, rows in ROWS.items()}
    return {
        **counts,
        "runs_pending": pending,
        "runs_running": running,
        "passages_without_vector": passages,
        "passages_without_next_vector": next_passages,
        "sessions_due": sessions,
    }


def _serving() -> int | None:
    """Returns the profile that searches use; None before the first one serves, when no passage has a vector."""
    return EmbeddingProfile.objects.filter(is_serving=True).values_list("pk", flat=True).first()


def _next(wanted: Profile) -> int | None:
    """Returns the profile that is to take over, if its vectors are being made."""
    asked = EmbeddingProfile.objects.asked(wanted).filter(is_serving=False)
    return asked.values_list("pk", flat=True).first()


def _passages(cursor: CursorWrapper, profile: int | None) -> int:
    """Returns how many passages have no vector of the profile."""
    cursor.execute(PASSAGES, {"most": MOST, "profile": profile})
    return int(cursor.fetchone()[0])


def _count(cursor: CursorWrapper, table: str, condition: str) -> int:
    cursor.execute(f"SELECT count(*) FROM (SELECT FROM memoryapp_{table} WHERE {condition} LIMIT %s) r", [MOST])
    return int(cursor.fetchone()[0])
