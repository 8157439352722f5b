"""What waits to be done, read from the rows when somebody asks.

Work is a state in a row, so there is no other queue to look at. Each count ends at a bound and walks an index:
whoever asks every few seconds should not be what keeps the database busy.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db import connection
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

MOST = 10_000

RUNS = """
SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'running')
FROM (SELECT state FROM memoryapp_run WHERE state <> 'finished' LIMIT %(most)s) open
"""
# Vectors are made in the order of passages, so the missing ones are among the newest.
PASSAGES = """
SELECT count(*) FROM (SELECT id FROM memoryapp_passage ORDER BY id DESC LIMIT %(most)s) p
WHERE NOT EXISTS (SELECT FROM memoryapp_passagevector v WHERE v.passage_id = p.id)
"""
SESSIONS = """
SELECT count(*) FROM (
    SELECT FROM (
        SELECT owner_id, session, sent_at FROM memoryapp_message
        WHERE topic_id IS NULL AND NOT is_withdrawn LIMIT %(most)s
    ) active
    GROUP BY owner_id, session HAVING max(sent_at) < now() - make_interval(secs => %(pause)s)
) due
"""


class Queues(Collector):
    """Runs waiting and running, passages without any vector, sessions that are over and not archived."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge with a label for each queue. Raises DatabaseError."""
        family = GaugeMetricFamily(
            "mnemoscope_queue_depth", f"What waits to be done, counted up to {MOST}.", labels=["queue"]
        )
        for name, depth in _depths().items():
            family.add_metric([name], depth)
        yield family


def _depths() -> dict[str, int]:
    values = {"most": MOST, "pause": settings.CHUNK_INTERVAL}
    with connection.cursor() as cursor:
        cursor.execute(RUNS, values)
        pending, running = cursor.fetchone()
        cursor.execute(PASSAGES, values)
        (passages,) = cursor.fetchone()
        cursor.execute(SESSIONS, values)
        (sessions,) = cursor.fetchone()
    return {
        "runs_pending": pending,
        "runs_running": running,
        "passages_without_vector": passages,
        "sessions_due": sessions,
    }
