"""The backlog as a metric: rows whose work is not done yet, counted when `/metrics` is read.

Work is a state in a row, so there is no other queue to measure. Each count stops at a bound, and a count in a large
table uses an index, so `/metrics` can be read every few seconds at little cost.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db.models import Count, Q
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Profile
from memoryapp.models import EmbeddingProfile, Rhythm
from memoryapp.platform import cells
from memoryapp.platform.statements import fetched

MOST = 10_000

_SQL = table_beside(__file__)
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


class BacklogCollector(Collector):
    """Counts what waits: imports, sessions, passages, suggestions, artifacts, runs, erasures, messages to webhooks.
    ``wanted`` is the embedding profile that the settings name: if another one serves, it is to take over."""

    def __init__(self, wanted: Profile) -> None:
        self._wanted = wanted

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields gauges, all but one with a label. Raises DatabaseError."""
        connections = dict(fetched(_SQL["connections"]))
        is_open = Q(alarms__healed_at__isnull=True, alarms__isnull=False)
        alarms = dict(Rhythm.objects.values_list("watch").annotate(n=Count("alarms", filter=is_open)).order_by())
        for name, words, label, values in (
            ("queue_depth", f"Work that is not done yet, counted up to {MOST}.", "queue", depths(self._wanted)),
            ("oldest_waiting_seconds", "How long the oldest message has waited for it.", "thing", ages()),
            ("database_connections", "Connections of all processes, by state.", "state", connections),
            ("alarms_open", "Troubles that are not over.", "watch", alarms),
        ):
            family = GaugeMetricFamily(f"mnemoscope_{name}", words, labels=[label])
            for value, count in values.items():
                family.add_metric([value], count)
            yield family
        most = int(fetched("SHOW max_connections")[0][0])
        yield GaugeMetricFamily("mnemoscope_database_connections_most", "As many as the server takes.", most)


def ages() -> dict[str, float]:
    """Seconds since the oldest message came that waits for passage, vector, topic; 0 for none. Raises DatabaseError."""
    pause = max(settings.CHUNK_INTERVAL, settings.CHUNK_INTERVAL_PEOPLE)
    values = {"looked_at": LOOKED_AT, "profile": _serving(), "pause": pause}
    return {name: max(_age(statement, values), default=0.0) for name, statement in AGES.items()}


@cells.everywhere()
def _age(statement: str, values: Mapping[str, Any]) -> list[float]:
    return [age for (age,) in fetched(statement, values)]


@cells.everywhere()
def depths(wanted: Profile, *, with_paused: bool = True) -> dict[str, int]:
    """What waits in each queue. ``wanted`` is to take over from the profile that serves, if its vectors are made."""
    following = EmbeddingProfile.objects.asked(wanted).filter(is_serving=False).values_list("pk", flat=True).first()
    values = {"most": MOST, "pause": settings.CHUNK_INTERVAL, "people": settings.CHUNK_INTERVAL_PEOPLE}
    return dict(
        fetched(_SQL["depths"], {**values, "serving": _serving(), "next": following, "with_paused": with_paused})
    )


def _serving() -> int | None:
    """Returns the profile that searches use; None before the first one serves, when no passage has a vector."""
    return EmbeddingProfile.objects.filter(is_serving=True).values_list("pk", flat=True).first()
