"""The backlog as a metric: rows whose work is not done yet, counted when `/metrics` is read.

Work is a state in a row, so there is no other queue to measure. Each count stops at a bound, and a count in a large
table uses an index, so `/metrics` can be read every few seconds at little cost.
"""

from collections.abc import Iterator

from django.conf import settings
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Profile
from memoryapp.models import Alarm, EmbeddingProfile
from memoryapp.platform.statements import fetched

MOST = 10_000

# Those whose state this role may not see have none.
CONNECTIONS = """
SELECT coalesce(state, 'unknown'), count(*) FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1
"""
_SQL = table_beside(__file__)
RUNS, PASSAGES, SESSIONS, UNREAD = (str(_SQL[name]) for name in ("runs", "passages", "sessions", "unread"))
# Seconds since the oldest message came that waits for a passage, a vector or, after its session ended, a topic.
AGES: dict[str, str] = {
    thing: _SQL["waiting"].format(looked_at=_SQL[looked_at], lacks=_SQL[lacks])
    for thing, looked_at, lacks in (
        ("passage", "active", "no_passage"),
        ("vector", "latest", "no_vector"),
        ("topic", "active", "no_topic"),
    )
}
LOOKED_AT = 50_000
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
        for name, depth in depths(self._wanted).items():
            family.add_metric([name], depth)
        yield family
        family = GaugeMetricFamily(
            "mnemoscope_oldest_waiting_seconds", "How long the oldest message has waited for it.", labels=["thing"]
        )
        for name, age in ages().items():
            family.add_metric([name], age)
        yield family
        family = GaugeMetricFamily(
            "mnemoscope_database_connections", "Connections of all processes, by state.", labels=["state"]
        )
        for state, count in fetched(CONNECTIONS):
            family.add_metric([state], count)
        yield family
        most = int(fetched("SHOW max_connections")[0][0])
        yield GaugeMetricFamily("mnemoscope_database_connections_most", "As many as the server takes.", most)
        family = GaugeMetricFamily("mnemoscope_alarms_open", "Troubles that are not over.", labels=["watch"])
        open_alarms = Alarm.objects.filter(healed_at__isnull=True).order_by().values_list("rhythm__watch")
        for name, count in open_alarms.annotate(count=Count("pk")):
            family.add_metric([name], count)
        yield family


def ages() -> dict[str, float]:
    """Seconds since the oldest message came that waits for passage, vector, topic; 0 for none. Raises DatabaseError."""
    pause = max(settings.CHUNK_INTERVAL, settings.CHUNK_INTERVAL_PEOPLE)
    values = {"looked_at": LOOKED_AT, "profile": _serving(), "pause": pause}
    found = {}
    for name, statement in AGES.items():
        rows = fetched(statement, values)
        found[name] = rows[0][0] if rows else 0.0
    return found


def depths(wanted: Profile) -> dict[str, int]:
    values = {"most": MOST, "pause": settings.CHUNK_INTERVAL, "people": settings.CHUNK_INTERVAL_PEOPLE}
    with connection.cursor() as cursor:
        cursor.execute(RUNS, values)
        pending, running = cursor.fetchone()
        passages = _passages(cursor, _serving())
        # The profile that is to take over, if its vectors are being made.
        following = EmbeddingProfile.objects.asked(wanted).filter(is_serving=False).first()
        next_passages = _passages(cursor, following.pk) if following else 0
        cursor.execute(SESSIONS, values)
        (sessions,) = cursor.fetchone()
        counts = {}
        for name, (table, condition) in ROWS.items():
            limited = f"SELECT FROM memoryapp_{table} WHERE {condition} LIMIT {MOST}"
            cursor.execute(f"SELECT count(*) FROM ({limited}) r")
            counts[name] = int(cursor.fetchone()[0])
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


def _passages(cursor: CursorWrapper, profile: int | None) -> int:
    cursor.execute(PASSAGES, {"most": MOST, "profile": profile})
    return int(cursor.fetchone()[0])
