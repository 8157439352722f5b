"""Runs compared: where they first differ, topics that edits replaced, and what changed meanwhile."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryapp import curation
from memoryapp.doors.api.access import written
from memoryapp.doors.api.shapes.runs import ComparisonAnswer
from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.insight.compare import CompareError, compare
from memoryapp.insight.compare.comparison import always_together, meanwhile
from memoryapp.models import ChatUser, EmbeddingProfile, Run, Topic, TopicEdit
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from tests.explain.planted import ByPlace, Memory, executed, seeded

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def memory() -> Memory:
    made = await sync_to_async(seeded)(3)
    await embed_pending(offline_embedder())
    await EmbeddingProfile.objects.aupdate(threshold=0.97)
    return made


async def by_place(memory: Memory, reads: Sequence[int], chooses: Sequence[int], **given: Any) -> tuple[Run, list[str]]:
    """A run whose model reads and chooses at these places, and the ids of its candidates in order."""
    chat = ByPlace(reads, chooses)
    run = await executed(memory.owner, chat=chat, **given)
    return run, [f"Topic:{number}" for number in chat.shown]


async def compared(*runs: Run) -> dict[str, Any]:
    return await sync_to_async(lambda: json.loads(written(ComparisonAnswer.model_validate(compare(runs)))))()


def state(document: dict[str, Any], id: str, run: Run) -> str:
    (topic,) = [each for each in document["topics"] if id == each["id"] or id in each["met_as"].get(str(run.pk), ())]
    return str(topic["in"][str(run.pk)])


async def test_what_only_one_run_read_is_the_first_difference(memory: Memory) -> None:
    one, shown = await by_place(memory, (0, 1, 2), (0,))
    other, _same = await by_place(memory, (0, 1), (0,))
    document = await compared(one, other)
    first = document["first_divergence"]
    assert (first["stage"], first["turn"]) == ("turn", 1)
    assert first["sentence"] == f"Turn 1: A read {shown[2]}, B did not."
    assert (await compared(other, one))["first_divergence"]["sentence"] == f"Turn 1: B read {shown[2]}, A did not."
    assert (state(document, shown[2], one), state(document, shown[2], other)) == ("dropped", "shown")
    assert (state(document, shown[0], one), state(document, shown[0], other)) == ("chosen", "chosen")


PLANTED = [
    ({"reads": (0, 1), "chooses": (0,)}, {"reads": (0, 1), "chooses": (1,)}, "choice"),
    ({"reads": (0, 1), "chooses": (0, 1)}, {"reads": (0, 1), "chooses": (1, 0)}, "choice"),
    ({"reads": (0, 1), "chooses": (0,)}, {"reads": (0, 1), "chooses": (0,), "query": "lantern garden"}, "query"),
    ({"reads": (0, 1), "chooses": (0,)}, {"reads": (0, 1), "chooses": (0,), "parameters": {"candidates": 3}}, "search"),
    ({"reads": (0, 1), "chooses": (0,)}, {"reads": (0, 1), "chooses": (0,)}, "none"),
]


@pytest.mark.parametrize(("one", "other", "stage"), PLANTED)
async def test_a_planted_difference_is_found_at_its_stage(
    memory: Memory, one: dict[str, Any], other: dict[str, Any], stage: str
) -> None:
    runs = [(await by_place(memory, **given))[0] for given in (one, other)]
    assert (await compared(*runs))["first_divergence"]["stage"] == stage


class Mumbling(ByPlace):
    """Reads as asked, and then answers with no list at all."""

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        if not self.shown:
            async for reply in super().converse(request):
                yield reply
        else:
            yield Reply(text="Hm.", message={"role": "assistant", "content": "Hm."})


async def test_the_end_without_a_choice_is_the_difference(memory: Memory) -> None:
    one, _shown = await by_place(memory, (0,), (0,))
    unread = await executed(memory.owner, chat=Mumbling((0,), ()))
    assert unread.fallback
    first = (await compared(one, unread))["first_divergence"]
    assert (first["stage"], unread.fallback in first["sentence"]) == ("choice", True)


async def test_what_a_fork_leaves_out_shows_by_its_effect(memory: Memory) -> None:
    parent = await executed(memory.owner, strategy="vector", parameters={"max_topics": 1})
    before = await compared(parent, await executed(memory.owner, strategy="vector"))
    chosen = [topic["id"] for topic in before["topics"] if topic["in"][str(parent.pk)] == "chosen"]
    fork = await sync_to_async(forks.fork)(parent, changes={"without": chosen})
    async with open_clients() as clients:
        await lifecycle.execute(fork.pk, clients)
    await fork.arefresh_from_db()
    first = (await compared(parent, fork))["first_divergence"]
    assert first["stage"] == "choice"
    assert chosen[0] not in first["sentence"]


def parent_of_all(run: Run) -> Run:
    """Another finished run of the same memory."""
    return Run.objects.create(owner=run.owner, query=run.query, strategy="flash", state=Run.State.FINISHED)


def merge(owner: ChatUser, *topics: Topic) -> Topic:
    change = curation.plan_merge(owner, [topic.pk for topic in topics])
    curation.swap(owner, change, kind=TopicEdit.Kind.MERGE, actor="ada")
    return Topic.objects.of(owner).live().latest("pk")


async def test_topics_that_an_edit_replaced_are_not_missing(memory: Memory) -> None:
    everything = {"strategy": "vector", "parameters": {"max_topics": 15}}
    before = await executed(memory.owner, **everything)
    one, other = memory.garden[:2]
    merged = await sync_to_async(merge)(memory.owner, one, other)
    await embed_pending(offline_embedder())
    after = await executed(memory.owner, **everything)
    document = await compared(before, after)
    (topic,) = [each for each in document["topics"] if each["id"] == f"Topic:{merged.pk}"]
    assert topic["in"] == {str(before.pk): "chosen", str(after.pk): "chosen"}
    assert set(topic["met_as"][str(before.pk)]) == {f"Topic:{one.pk}", f"Topic:{other.pk}"}
    assert not any("absent" in each["in"].values() for each in document["topics"])
    between = await sync_to_async(meanwhile)(before, after)
    assert (between.edits, between.topics, [entry.record.kind for entry in between.entries]) == (1, 1, ["merge"])
    assert not await sync_to_async(lambda: bool(meanwhile(after, after)))()


async def test_a_retired_topic_that_only_one_run_met_names_its_successors(memory: Memory) -> None:
    run, shown = await by_place(memory, (0,), (0,))
    worded, _same = await by_place(memory, (0,), (0,), query="nothing of the kind", parameters={"candidates": 1})
    topic = next(each for each in memory.garden if f"Topic:{each.pk}" == shown[0])
    merged = await sync_to_async(merge)(memory.owner, topic, memory.other[0])
    document = await compared(run, worded)
    (row,) = [each for each in document["topics"] if each["id"] == shown[0]]
    assert row["now"] == [f"Topic:{merged.pk}"]


async def test_runs_that_cannot_be_compared_are_refused_with_a_sentence(memory: Memory) -> None:
    run = await executed(memory.owner, strategy="vector")
    stranger = await sync_to_async(seeded)(4)
    theirs = await executed(stranger.owner, strategy="vector")
    going = await Run.objects.acreate(owner=memory.owner, query="?", strategy="vector")
    for refused, words in ([run], "two"), ([run, run], "two"), ([run, theirs], "several"), ([run, going], "not ended"):
        with pytest.raises(CompareError, match=words):
            await compared(*refused)
    again = await executed(memory.owner, strategy="vector")
    assert (await compared(run, again))["first_divergence"]["stage"] == "none"


async def test_many_runs_need_as_many_statements_as_two(memory: Memory) -> None:
    places = itertools.cycle([((0, 1), (0, 1)), ((0, 1, 2), (0, 1, 2))])
    runs = [(await by_place(memory, *next(places)))[0] for _run in range(6)]

    def statements(compared: Sequence[Run]) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            compare(compared)
        return len(seen)

    assert await sync_to_async(statements)(runs) == await sync_to_async(statements)(runs[:2])
    found = await sync_to_async(compare)(runs)
    assert [topic.times_chosen for topic in found.topics[:4]] == [6, 6, 3, 0]
    (group,) = always_together(found.topics)
    assert {topic.id for topic in group} == {topic.id for topic in found.topics[:2]}


async def test_a_run_that_failed_before_its_search_is_compared_too(memory: Memory) -> None:
    run = await executed(memory.owner, strategy="vector")
    empty = await sync_to_async(parent_of_all)(run)
    document = await compared(run, empty)
    assert document["first_divergence"]["stage"] in ("search", "choice")
