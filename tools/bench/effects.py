"""Curation: the effect of a merge on past runs, and the suggestions for a memory.

The runs are stored as if each had found the topics to merge, so all of them are tried again. The effect is compared
with the searches of those runs alone, the suggestions with the bare comparison of all topics.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from django.db import connection
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import effect, rescoring, suggestions
from memoryapp.curation.effect import effect_of
from memoryapp.engine.memory import topic_id
from memoryapp.models import EmbeddingProfile, QueryVector, Run, RunEvent, Topic, TopicMessage
from tools.bench.memory import directions
from tools.bench.stage import BenchStage
from tools.bench.table import BenchRow, quantile

TRIES = 3


def rows(stage: BenchStage, profile: EmbeddingProfile, runs: int) -> Iterator[BenchRow]:
    """Measures both over the whole memory of the stage; ``runs`` runs are tried again."""
    topics = list(Topic.objects.of(stage.owner).live().order_by("pk").values_list("pk", flat=True))
    _store_runs(stage, profile, topics, runs)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memoryapp_run, memoryapp_runevent, memoryapp_queryvector")
    yield _effect(stage, topics)
    yield _suggestions(stage, profile, len(topics))


def _effect(stage: BenchStage, topics: Sequence[int]) -> BenchRow:
    change = curation.plan_merge(stage.owner, topics[:2])
    tried = [run.query for run in effect.runs_that_saw(stage.owner.pk, change.out)]
    passages = rescoring.passages(stage.owner.pk)
    took = _seconds(lambda: effect_of(stage.owner, change))
    alone = _seconds(lambda: list(rescoring.compared(stage.owner.pk, passages, tried)))
    name = f"effect on {len(tried)} runs, {len(passages.ids)} passages: p95"
    return BenchRow(name, quantile(took, 0.95) * 1e3, "their searches alone", quantile(alone, 0.5) * 1e3, "ms")


def _suggestions(stage: BenchStage, profile: EmbeddingProfile, topics: int) -> BenchRow:
    vectors = np.array(list(directions(np.random.default_rng(0), topics, profile.dimensions)))
    took = _seconds(lambda: suggestions.suggest(stage.owner))
    alone = _seconds(lambda: np.argpartition(-(vectors @ vectors.T), min(10, topics - 1), axis=1))
    name = f"suggestions, {topics} topics: p95"
    return BenchRow(name, quantile(took, 0.95) * 1e3, "bare comparison of topics", quantile(alone, 0.5) * 1e3, "ms")


def _seconds(act: Callable[[], object]) -> list[float]:
    took = []
    for _ in range(TRIES):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return took


def _store_runs(stage: BenchStage, profile: EmbeddingProfile, topics: Sequence[int], count: int) -> None:
    runs = Run.objects.bulk_create(
        Run(owner=stage.owner, query=stage.query(n), strategy="flash", state=Run.State.FINISHED) for n in range(count)
    )
    newest = dict(TopicMessage.objects.filter(owner=stage.owner).order_by("-message").values_list("topic", "message"))
    RunEvent.objects.bulk_create(
        RunEvent(owner=stage.owner, run=run, seq=seq, kind=kind, at=timezone.now(), payload=payload)
        for n, run in enumerate(runs)
        for seq, (kind, payload) in enumerate(_events(run.query, topics, n, newest), start=1)
    )
    drawn = directions(np.random.default_rng(1), count, profile.dimensions)
    QueryVector.objects.bulk_create(
        QueryVector(owner=stage.owner, run=run, profile=profile, vector=vector)
        for run, vector in zip(runs, drawn, strict=True)
    )


def _events(
    query: str, topics: Sequence[int], n: int, newest: dict[int, int]
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yields the events of a run that are read: the query, the candidates and the selection."""
    chosen = topics[n % len(topics)]
    yield "query_enriched", {"query": query, "enriched": query}
    shown = [{"id": topic_id(number), "line": "·" * 1000, "shown": True} for number in topics[:50]]
    others = [{"id": topic_id(number), "summary": "·" * 200, "shown": False} for number in topics[50:200]]
    yield "candidates_found", {"candidates": [*shown, *others]}
    yield "run_finished", {"selected": [{"id": topic_id(chosen), "excerpt": [{"message": newest[chosen]}]}]}
