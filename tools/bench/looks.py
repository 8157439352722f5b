"""What a person waits for: a search, the page of a run, the effect of a merge on past runs, and suggestions.

A search is compared with the bare scan of the vectors in the database, which no exact search can undercut, the page of
a finished run with one that lists nothing, the effect with the searches of its runs alone, and the suggestions with the
bare comparison of all topics. The past runs are stored as if each had found the topics to merge, so all of them are
tried again.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

import numpy as np
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pgvector import HalfVector

from memoryapp import curation
from memoryapp.curation import effect, rescoring, suggestions
from memoryapp.curation.effect import effect_of
from memoryapp.engine.memory import topic_id
from memoryapp.models import Access, EmbeddingProfile, Operator, QueryVector, Role, Run, RunEvent, Topic, TopicMessage
from memoryapp.platform.embedded import statics
from memoryapp.search import retrieval
from memoryapp.search.similarity import Question
from tools.bench.memory import NAME, directions
from tools.bench.stage import BenchStage, embedded_clients
from tools.bench.table import BenchRow, quantile

SEARCHES, PAGES, TRIES = 20, 10, 3
SCAN = """
SELECT passage_id, vector <#> %s AS distance FROM memoryapp_passagevector
WHERE owner_id = %s AND profile_id = %s ORDER BY distance LIMIT 50
"""


async def search_rows(stage: BenchStage) -> AsyncIterator[BenchRow]:
    """Measures searches over all passages of the stage."""
    async with embedded_clients() as clients, clients.pool.connection() as pooled:
        profile, passages, searched, scanned = clients.embedder.profile, 0, [], []
        drawn = directions(np.random.default_rng(0), SEARCHES, profile.dimensions)
        for number, vector in enumerate(map(HalfVector, drawn)):
            began = time.perf_counter()
            await (await pooled.execute(SCAN, [vector, stage.owner.pk, clients.profile_id])).fetchall()
            scanned.append(time.perf_counter() - began)
            asked = Question(stage.owner.pk, stage.query(number), vector, clients.profile_id, profile.dimensions)
            began = time.perf_counter()
            found = await retrieval.search(pooled, asked, threshold=profile.threshold, cache=clients.index_cache)
            searched.append(time.perf_counter() - began)
            passages = found.passages
        name, scan = f"search, {passages} passages: p50", quantile(scanned, 0.5) * 1e3
        yield BenchRow(name, quantile(searched, 0.5) * 1e3, "bare scan of the vectors", scan, "ms")


def page_rows(stage: BenchStage) -> Iterator[BenchRow]:
    """Requests both pages as an operator who may look at no other memory."""
    statics.collect()
    run = Run.objects.of(stage.owner).filter(strategy="flash", state=Run.State.FINISHED).first()
    if run is None:
        return
    forget_viewer()
    operator = Operator.objects.create(user=User.objects.create_user(NAME), role=Role.VIEWER)
    Access.objects.create(operator=operator, owner=stage.owner)
    client = Client(headers={"host": "localhost"})
    client.force_login(operator.user)

    def look(address: str) -> None:
        answer = client.get(address)
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}")

    try:
        addresses = (reverse("artifacts", args=[stage.owner.pk]), reverse("run", args=[run.pk]))
        empty, shown = (quantile(_seconds(partial(look, each), PAGES + 1)[1:], 0.5) for each in addresses)
        yield BenchRow("page of a run: p50", shown * 1e3, "page that lists nothing", empty * 1e3, "ms")
    finally:
        client.logout()
        forget_viewer()


def forget_viewer() -> None:
    """Deletes the account that this bench, or one that was killed, created."""
    User.objects.filter(username=NAME).delete()


def curation_rows(stage: BenchStage, profile: EmbeddingProfile, runs: int) -> Iterator[BenchRow]:
    """Measures effect and suggestions over the whole memory of the stage; ``runs`` runs are tried again."""
    topics = list(Topic.objects.of(stage.owner).live().order_by("pk").values_list("pk", flat=True))
    _store_runs(stage, profile, topics, runs)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memoryapp_run, memoryapp_runevent, memoryapp_queryvector")
    change = curation.plan_merge(stage.owner, topics[:2])
    tried = [run.query for run in effect.runs_that_saw(stage.owner.pk, change.out)]
    passages = rescoring.passages(stage.owner.pk)
    took = _seconds(lambda: effect_of(stage.owner, change))
    alone = _seconds(lambda: list(rescoring.compared(stage.owner.pk, passages, tried)))
    name = f"effect on {len(tried)} runs, {len(passages.ids)} passages: p95"
    yield BenchRow(name, quantile(took, 0.95) * 1e3, "their searches alone", quantile(alone, 0.5) * 1e3, "ms")
    count = len(topics)
    vectors = np.array(list(directions(np.random.default_rng(0), count, profile.dimensions)))
    took = _seconds(lambda: suggestions.suggest(stage.owner))
    alone = _seconds(lambda: np.argpartition(-(vectors @ vectors.T), min(10, count - 1), axis=1))
    name = f"suggestions, {count} topics: p95"
    yield BenchRow(name, quantile(took, 0.95) * 1e3, "bare comparison of topics", quantile(alone, 0.5) * 1e3, "ms")


def _seconds(act: Callable[[], object], times: int = TRIES) -> list[float]:
    took = []
    for _ in range(times):
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
