"""The measurements run, say what they measured, and leave the memory as it was."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from memoryapp import clients
from memoryapp.bench import borders, memory, stage
from memoryapp.bench.table import Row, line
from memoryapp.models import ChatUser, EmbeddingProfile, Message, PassageVector, Run, RunEvent, Topic
from memoryapp.operations import advisory_locks
from memoryapp.runs import lifecycle
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.engine.scripted import message
from tests.search.test_vectors import Hashing

pytestmark = pytest.mark.django_db(transaction=True)

# Beyond this nobody would wait for an answer; a busy machine gets three tries.
UNBEARABLE = 4.0
TRIES = 3


def counts() -> dict[str, int]:
    return {model.__name__: model._default_manager.count() for model in apps.get_models()}


def measured() -> dict[str, float]:
    out = StringIO()
    call_command("bench", "--quick", "--json", stdout=out)
    return {row["name"]: row["ratio"] for row in json.loads(out.getvalue())["rows"]}


def test_everything_is_measured_and_nothing_is_left_behind(anna: ChatUser) -> None:
    talk(anna, ("Cake", ["Which cake for ten?", "A honey cake."]))
    profile = clients.profile()
    EmbeddingProfile.objects.create(
        provider=profile.provider, model=profile.model, dimensions=profile.dimensions, threshold=profile.threshold
    )
    before = counts()
    ratios = measured()
    assert counts() == before
    assert ratios["reranks, 20 at once: failed"] == 0
    for splitter in ("segmenter", "scripted model"):
        assert ratios[f"borders of the {splitter}: WindowDiff"] < 1
        assert ratios[f"borders of the {splitter}: F1"] > 1
    for name in ("search, 300 passages: p50", "rerank with enricher: p50", "page of a run: p50"):
        assert ratios[name] > 0
    tries = 1
    while ratios["reranks, 20 at once: p50"] > UNBEARABLE and tries < TRIES:
        ratios, tries = measured(), tries + 1
    assert ratios["reranks, 20 at once: p50"] <= UNBEARABLE


def test_the_measures_of_borders_are_those_of_the_literature() -> None:
    dialogue = borders.Dialogue(tuple(message(at, "said") for at in range(1, 13)), frozenset({4, 8}))
    assert borders.score([(dialogue, frozenset({4, 8}))]) == borders.Score(0.0, 0.0, 1.0)
    # Windows are two messages wide; of ten, those that reach over a missed or a wrong border are wrong.
    assert borders.score([(dialogue, frozenset())]) == borders.Score(0.4, 0.4, 0.0)
    assert borders.score([(dialogue, frozenset({4, 9}))]) == borders.Score(0.2, 0.2, 0.5)
    # Two borders in a window that has one are no fault for Pk, which asks for any.
    assert borders.score([(dialogue, frozenset({4, 5, 8}))]) == borders.Score(0.1, 0.2, 0.8)
    assert all(set(range(1, len(known.messages))) >= known.borders for known in borders.dialogues())


def test_what_a_killed_bench_left_is_removed_and_nothing_else(anna: ChatUser) -> None:
    talk(anna, ("Cake", ["Which cake for ten?", "A honey cake."]))
    before = counts()
    left = ChatUser.objects.create(name=memory.NAME)
    talk(left, ("Bench", ["tato bami", "ludi kalo"]))
    run = Run.objects.create(owner=left, query="tato", strategy="flash")
    RunEvent.objects.create(owner=left, run=run, seq=1, kind="run_started", at=run.created_at, payload={})
    memory.remove()
    assert counts() == before
    assert Message.objects.of(anna).count() == 2


def test_the_made_up_memory_is_whole_and_needs_no_worker(anna: ChatUser) -> None:
    row = EmbeddingProfile.objects.create(provider="test", model="two", dimensions=2, threshold=0.5)
    with memory.stored(3, row) as owner:
        assert Topic.objects.of(owner).live().count() == 3
        assert Message.objects.of(owner).active().count() == 0
        assert PassageVector.objects.filter(owner=owner).count() == 15
        call_command("check_memory", stdout=StringIO())
    assert not ChatUser.objects.filter(name=memory.NAME).exists()


def test_a_worker_that_embeds_at_the_same_time_stands_in_nobodys_way(anna: ChatUser) -> None:
    memory._put(anna, range(3))
    async_to_sync(embed_pending)(Hashing())
    embedded = PassageVector.objects.count()
    assert embedded
    memory._put_vectors(anna, EmbeddingProfile.objects.get())
    assert PassageVector.objects.count() == embedded


def test_no_worker_takes_over_what_a_bench_has_asked_for(anna: ChatUser) -> None:
    asked = async_to_sync(stage.asked)(stage.Stage(anna, "", ("cake",)), 0)
    assert (Run.objects.get().pk, lifecycle.unclaimed(timedelta(0))) == (asked.pk, [])


def test_two_benches_do_not_measure_each_other() -> None:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_lock({advisory_locks._KEY})", ["bench", 0])
        with pytest.raises(CommandError, match="Another bench"):
            call_command("bench", "--quick")
    finally:
        other.close()


def test_a_row_says_what_it_is_held_against() -> None:
    told = line(Row("reranks: p50", 0.6, "two turns of the peer", 0.4, "s"))
    assert told.split("  ")[0] == "reranks: p50"
    assert "two turns of the peer" in told
    assert told.endswith("1.50×")
