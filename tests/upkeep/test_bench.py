"""The measurements run, print what they measured, and leave the memory unchanged."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from memoryapp.engine.chat.protocol import ChatRequest, PartialReply, Reply
from memoryapp.models import ChatUser, EmbeddingProfile, Message, PassageVector, Run, RunEvent, Topic
from memoryapp.platform import database
from memoryapp.platform.llm import clients
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.engine.scripted import message
from tests.search.test_vectors import Hashing
from tests.support.clock import PATIENCE
from tests.support.executing import memory_of_three, start
from tests.support.hesitating import Hesitant
from tools.bench import borders, memory, stage
from tools.bench.table import BenchRow, line

pytestmark = [pytest.mark.loads, pytest.mark.django_db(transaction=True)]

AT_ONCE = 20
# Milliseconds of processor time for a rerank; with more, an answer would take too long when many run at once.
UNBEARABLE = 80.0


def counts() -> dict[str, int]:
    return {model.__name__: model._default_manager.count() for model in apps.get_models()}


class Meeting(Hesitant):
    """Answers no first question before all runs have asked theirs."""

    def __init__(self) -> None:
        self.all_here = asyncio.Barrier(AT_ONCE)

    async def converse(self, request: ChatRequest) -> AsyncIterator[PartialReply | Reply]:
        if request.force_tool:
            await asyncio.wait_for(self.all_here.wait(), PATIENCE)
        async for part in super().converse(request):
            yield part


def test_everything_is_measured_and_nothing_is_left_behind(anna: ChatUser) -> None:
    talk(anna, ("Cake", ["Which cake for ten?", "A honey cake."]))
    profile = clients.profile()
    EmbeddingProfile.objects.create(
        provider=profile.provider, model=profile.model, dimensions=profile.dimensions, threshold=profile.threshold
    )
    before = counts()
    out = StringIO()
    call_command("bench", "--quick", "--json", stdout=out)
    rows = json.loads(out.getvalue())["rows"]
    ratios, measured = ({row["name"]: row[key] for row in rows} for key in ("ratio", "measured"))
    assert counts() == before
    assert ratios["reranks, 20 at once: failed"] == 0
    for splitter in ("segmenter", "scripted model"):
        assert ratios[f"borders of the {splitter}: WindowDiff"] < 1
        assert ratios[f"borders of the {splitter}: F1"] > 1
    for name in ("search, 300 passages: p50", "rerank with enricher: p50", "page of a run: p50"):
        assert ratios[name] > 0
    assert measured[f"reranks, {AT_ONCE} at once: processor"] <= UNBEARABLE


@pytest.mark.usefixtures("thread_closed")
async def test_reranks_wait_for_their_model_at_the_same_time() -> None:
    memory = await memory_of_three()
    runs = [await start(memory) for _ in range(AT_ONCE)]
    async with open_clients() as opened:
        meeting = replace(opened, chat=Meeting(), enricher=None)
        await asyncio.gather(*(lifecycle.execute(run.pk, meeting) for run in runs))
    assert await Run.objects.filter(state=Run.State.FINISHED, fallback="", selected_count=1).acount() == AT_ONCE


def test_the_measures_of_borders_are_those_of_the_literature() -> None:
    dialogue = borders.Dialogue(tuple(message(at, "said") for at in range(1, 13)), frozenset({4, 8}))
    assert borders.score([(dialogue, frozenset({4, 8}))]) == borders.BorderScore(0.0, 0.0, 1.0)
    # Windows contain two messages; of ten windows, those that span a missed or a wrong border are wrong.
    assert borders.score([(dialogue, frozenset())]) == borders.BorderScore(0.4, 0.4, 0.0)
    assert borders.score([(dialogue, frozenset({4, 9}))]) == borders.BorderScore(0.2, 0.2, 0.5)
    # Pk asks only whether a window has any border, so two borders in a window that has one are no fault.
    assert borders.score([(dialogue, frozenset({4, 5, 8}))]) == borders.BorderScore(0.1, 0.2, 0.8)
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
    memory.put(anna, range(3))
    async_to_sync(embed_pending)(Hashing())
    embedded = PassageVector.objects.count()
    assert embedded
    memory.put_vectors(anna, EmbeddingProfile.objects.get())
    assert PassageVector.objects.count() == embedded


def test_no_worker_takes_over_what_a_bench_has_asked_for(anna: ChatUser) -> None:
    asked = async_to_sync(stage.create_run)(stage.BenchStage(anna, "", ("cake",)), 0)
    assert (Run.objects.get().pk, lifecycle.unclaimed(timedelta(0))) == (asked.pk, [])


def test_two_benches_do_not_measure_each_other() -> None:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_lock({database._KEY})", ["bench", 0])
        with pytest.raises(CommandError, match="Another bench"):
            call_command("bench", "--quick")
    finally:
        other.close()


def test_a_row_names_what_it_is_compared_with() -> None:
    text = line(BenchRow("reranks: p50", 0.6, "two turns of the peer", 0.4, "s"))
    assert text.split("  ")[0] == "reranks: p50"
    assert "two turns of the peer" in text
    assert text.endswith("1.50×")
