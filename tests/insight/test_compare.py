"""Runs compared: where they differ, whether memory or model is the cause, and how stable a choice is."""

import itertools
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryapp import curation
from memoryapp.doors.api.access import written
from memoryapp.doors.api.shapes.runs import ComparisonAnswer
from memoryapp.engine.chat.protocol import ChatRequest, LLMTimeout, Reply
from memoryapp.engine.events import Event
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.insight.compare import CompareError, compare, stability
from memoryapp.insight.compare.comparison import always_together, meanwhile
from memoryapp.insight.compare.stability import WantedRepetitions
from memoryapp.insight.explain import why_not
from memoryapp.models import ChatUser, Prompt, Run, Topic, TopicEdit
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.replays import ForkError
from memoryapp.search.vectors import embed_pending
from rerankui.compare.compare import sentence_of
from rerankui.runs.page.why_not import view_of
from tests.conftest import talk
from tests.explain.planted import ByPlace, Memory, executed, seeded, shown_by
from tests.explain.test_why_not import memory
from tests.insight.test_compare_pages import events, stored
from tests.runs.stored_events import every_event
from tests.support.browsing import get

__all__ = ["events", "memory"]

pytestmark = pytest.mark.django_db(transaction=True)


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
        with CaptureQueriesContext(connection) as seen:
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


# Two by two: whether the memory or the model changed what a run chose.


OLD, NEW = "old-model", "new-model"


class Wanting(ByPlace):
    """Chooses those of the topics with these numbers that it is shown, and nothing else."""

    def __init__(self, wants: Sequence[int]) -> None:
        super().__init__((0, 1), ())
        self._wants = wants

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        if not self.shown:
            async for reply in super().converse(request):
                yield reply
            return
        chosen = [number for number in self._wants if number in self.shown]
        text = json.dumps({"topics": [{"id": f"Topic:{number}", "reason": "so"} for number in chosen]})
        yield Reply(text=text, message={"role": "assistant", "content": text})


def chat_of(model: str, *numbers: int) -> ByPlace:
    chat = Wanting(numbers)
    chat.model = model
    return chat


async def asked(run: Run, by_model: Mapping[str, ByPlace], *, again: bool = False) -> stability.Causes:
    """Asks what is missing, each fork by the chat model that its changes name, and says what that shows."""
    begun = await sync_to_async(lambda: stability.begin_causes(run, forks.events_of(run), None, again=again))()
    async with open_clients() as clients:
        for fork in begun:
            chat = by_model[fork.changes.get("model", "")]
            chat.shown = []
            await lifecycle.execute(fork.pk, replace(clients, serving=None, chat=chat, http=None))
    return await sync_to_async(lambda: stability.causes(run, forks.events_of(run)))()


async def merge_two(lab_memory: Memory, *places: int) -> TopicEdit:
    numbers = [lab_memory.garden[place].pk for place in places]
    plan = await sync_to_async(curation.plan_merge)(lab_memory.owner, numbers)
    edit = await sync_to_async(curation.swap)(lab_memory.owner, plan, kind=TopicEdit.Kind.MERGE, actor="cora")
    await embed_pending(offline_embedder())
    return edit


@pytest.mark.usefixtures("thread_closed")
async def test_a_merge_is_named_as_what_lost_a_topic(lab_memory: Memory) -> None:
    wanted = lab_memory.garden[0].pk
    run = await executed(lab_memory.owner, chat=chat_of(EMBEDDED_MODEL, wanted))
    same = await asked(run, {"": chat_of(EMBEDDED_MODEL, wanted)})
    assert same.is_one_model
    assert same.cause == "none"
    assert len({cell.run.pk for cell in same.cells if cell.run}) == 2, "one model is asked once for each memory"
    edit = await merge_two(lab_memory, 0, 1)
    changed = await asked(run, {"": chat_of(EMBEDDED_MODEL, wanted)}, again=True)
    assert changed.cause == "memory"
    assert "same as then" in str(sentence_of(changed))
    [(lost, taken_by)] = changed.lost
    assert f"Topic:{wanted}" in lost.lineage.ids
    assert taken_by == edit
    [then, *_rest] = changed.cells
    assert [id for id, _topic in then.named] == [f"Topic:{wanted}"], "under the number that it had then"


@pytest.mark.usefixtures("thread_closed")
async def test_a_model_that_chooses_otherwise_over_the_same_memory_is_named(
    lab_memory: Memory, settings: LazySettings
) -> None:
    first, second = lab_memory.garden[0].pk, lab_memory.garden[1].pk
    run = await executed(lab_memory.owner, chat=chat_of(OLD, first))
    alone = await sync_to_async(lambda: stability.causes(run, forks.events_of(run)))()
    assert "No chat model is connected" in alone.models["then"].fault
    settings.LLM_BASE_URL, settings.RERANKER_MODEL = "http://127.0.0.1:1/v1", NEW
    found = await asked(run, {OLD: chat_of(OLD, first), "": chat_of(NEW, second)})
    assert found.cause == "model"
    assert {(cell.memory, cell.model): len(cell.gone) for cell in found.cells} == {
        ("then", "then"): 0,
        ("then", "now"): 1,
        ("now", "then"): 0,
        ("now", "now"): 1,
    }
    await merge_two(lab_memory, 0, 2)
    either = await asked(run, {OLD: chat_of(OLD, first), "": chat_of(NEW, second)}, again=True)
    assert either.cause == "either"
    unsteady = await asked(run, {OLD: chat_of(OLD, second), "": chat_of(NEW, second)}, again=True)
    assert unsteady.cause == "luck"


class Failing(ByPlace):
    """A model whose endpoint does not answer."""

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise LLMTimeout("late")
        yield


@pytest.mark.usefixtures("thread_closed")
async def test_a_failure_is_no_cause_and_only_what_failed_is_asked_again(lab_memory: Memory) -> None:
    wanted = lab_memory.garden[0].pk
    run = await executed(lab_memory.owner, chat=chat_of(EMBEDDED_MODEL, wanted))
    failing = Failing((0,), (0,))
    failing.model = EMBEDDED_MODEL
    failed = await asked(run, {"": failing})
    assert failed.cause == "failed"
    assert all(cell.has_failed for cell in failed.cells)
    well = await asked(run, {"": chat_of(EMBEDDED_MODEL, wanted)})
    assert well.cause == "none"
    assert not well.missing


@pytest.mark.usefixtures("thread_closed")
async def test_what_answers_in_words_or_goes_on_is_refused(lab_memory: Memory) -> None:
    answered = await executed(lab_memory.owner, strategy="plain")
    with pytest.raises(CompareError, match="memory of today only"):
        await sync_to_async(lambda: stability.causes(answered, forks.events_of(answered)))()
    going = await Run.objects.acreate(owner=lab_memory.owner, query="garden?", strategy="flash")
    with pytest.raises(CompareError, match="has not ended"):
        await sync_to_async(lambda: stability.begin_causes(going, [], None))()


@pytest.mark.usefixtures("thread_closed")
def test_the_page_says_what_it_costs_and_who_may_ask(
    as_debugger: Client, as_viewer: Client, anna: ChatUser, events: list[Event]
) -> None:
    run = stored(anna, events)
    page = get(as_debugger, f"/runs/{run.pk}/causes/")
    assert "not asked" in page
    assert "nothing chosen" not in page, "the run itself stands in the corner of then"
    assert "Ask them" in page
    assert as_viewer.post(f"/runs/{run.pk}/causes/").status_code == 403
    assert Run.objects.count() == 1
    assert f"/runs/{run.pk}/causes/" in get(as_debugger, f"/runs/{run.pk}/compare/")


# The stability lab: the same question again, in other orders, and whether the place of a candidate decides.


class ById(ByPlace):
    """Reads the first candidates, and chooses those with these numbers wherever they stand."""

    def __init__(self, chooses: Sequence[int]) -> None:
        super().__init__((0, 1), ())
        self._wanted = chooses

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        if not self.shown:
            async for reply in super().converse(request):
                yield reply
            return
        text = json.dumps({"topics": [{"id": f"Topic:{number}", "reason": "so"} for number in self._wanted]})
        yield Reply(text=text, message={"role": "assistant", "content": text})


@pytest.fixture
async def lab_memory() -> Memory:
    made = await sync_to_async(seeded)(3)
    await embed_pending(offline_embedder())
    return made


async def forked(run: Run, chat: ByPlace, **changes: object) -> Run:
    fork = await sync_to_async(forks.fork)(run, changes=changes)
    async with open_clients() as clients:
        await lifecycle.execute(fork.pk, replace(clients, serving=None, chat=chat))
    await fork.arefresh_from_db()
    return fork


async def test_a_seed_shows_the_same_candidates_in_another_order_each_time_the_same(lab_memory: Memory) -> None:
    run = await executed(lab_memory.owner, chat=ByPlace((0,), (0,)))
    before = await shown_by(run)
    orders = [await shown_by(await forked(run, ByPlace((0,), (0,)), order=seed)) for seed in (1, 1, 2)]
    assert sorted(orders[0]) == sorted(before)
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in (before, *orders)}) == 3
    for wrong in (-1, "x", True, 2**40, 1.5):
        with pytest.raises(ForkError, match="whole number"):
            await forked(run, ByPlace((0,), (0,)), order=wrong)
    assert await Run.objects.acount() == 4


async def test_a_model_that_takes_the_first_is_told_from_one_that_takes_what_fits(lab_memory: Memory) -> None:
    run = await executed(lab_memory.owner, chat=ByPlace((0,), (0,)))
    wanted = (await shown_by(run))[:1]
    first = [await forked(run, ByPlace((0, 1), (0,)), order=seed) for seed in range(1, 9)]
    fitting = [await forked(run, ById(wanted), order=seed) for seed in range(1, 9)]

    def biases() -> None:
        biased = stability.position_bias(compare([run, *first]).topics, first)
        unbiased = stability.position_bias(compare([run, *fitting]).topics, fitting)
        assert biased is not None
        assert unbiased is not None
        assert (biased.mean, biased.is_above_zero) == (pytest.approx(0.5, abs=0.08), True)
        assert unbiased.low < 0.5 * biased.mean
        assert stability.steadiness(compare([run, *fitting]).topics, [run, *fitting]) == (1, 0)
        assert stability.position_bias(compare([run, *first]).topics, first[:1]) is None

    await sync_to_async(biases)()


async def test_only_forks_that_repeat_are_repetitions_and_orders_go_on(lab_memory: Memory) -> None:
    run = await executed(lab_memory.owner, chat=ByPlace((0,), (0,)))
    await forked(run, ByPlace((0,), (0,)), order=4)
    await forked(run, ByPlace((0,), (0,)), max_topics=1)

    def planned() -> None:
        made, events = stability.repetitions(run), forks.events_of(run)
        assert [stability.kind_of(fork) for fork in made] == ["shuffled"]
        plan = stability.plan(run, events, WantedRepetitions(["same", "shuffled"], 2), made)
        assert list(plan.changes) == [{}, {}, {"order": 5}, {"order": 6}]
        words = stability.plan(run, events, WantedRepetitions(["paraphrased"], 1, "one\n\ntwo\none"), made)
        assert list(words.changes) == [{"query": "one"}, {"query": "two"}]
        wrong = [([], 1, ""), (["same"], 0, ""), (["same"], 21, ""), (["nothing"], 1, ""), (["paraphrased"], 1, " \n")]
        for kinds, times, text in wrong:
            with pytest.raises(CompareError):
                stability.plan(run, events, WantedRepetitions(kinds, times, text), made)

    await sync_to_async(planned)()


async def test_another_prompt_is_tried_in_the_lab_and_why_not_tells_how_often_it_chose(
    lab_memory: Memory, settings: LazySettings
) -> None:
    chat = ByPlace((0, 1), (0,))
    run = await executed(lab_memory.owner, chat=chat)
    lost = (await shown_by(run))[1]
    built_in = RERANK.built_in("en")
    row = {"system": built_in.system, "user": built_in.user, "made_by": "me"}
    await Prompt.objects.acreate(name="rerank", language="en", version=1, **row)

    def seen() -> None:
        events = forks.events_of(run)
        assert stability.other_prompts(events) == ["rerank-en-1"]
        for label in ("", "rerank-en-0", "rerank-en-9", "rerank-ru-1"):
            with pytest.raises(CompareError):
                stability.plan(run, events, WantedRepetitions(["prompted"], 2, prompt=label), [])
        plan = stability.plan(run, events, WantedRepetitions(["prompted"], 2, prompt="rerank-en-1"), [])
        assert list(plan.changes) == [{"prompt": "rerank-en-1"}] * 2
        assert not view_of(run, "", why_not(run, topic=f"Topic:{lost}")).prompts
        settings.LLM_BASE_URL = "http://127.0.0.1:1/v1"
        assert "kind=prompted&prompt=rerank-en-1" in view_of(run, "", why_not(run, topic=f"Topic:{lost}")).prompts

    await sync_to_async(seen)()
    for place in (0, 1, 1):
        await forked(run, ByPlace((0, 1), (place,)), prompt="rerank-en-1")
    explained = await sync_to_async(why_not)(run, topic=f"Topic:{lost}")
    assert "2 of 3" in explained.counterfactuals[0].result
    made = await sync_to_async(stability.repetitions)(run)
    assert [stability.kind_of(fork) for fork in made] == ["prompted"] * 3


def test_the_lab_shows_its_cost_first_starts_and_stops(
    as_debugger: Client, as_viewer: Client, as_stranger: Client, anna: ChatUser
) -> None:
    topics = talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))
    run = stored(anna, every_event(topics[0], topics[1], topics[0].topicmessage_set.all()[0].message))
    address = f"/runs/{run.pk}/lab/"
    sent = {"kind": ["shuffled"], "times": "2"}
    cost = as_viewer.get(address, sent, headers={"HX-Request": "true"}).content.decode()
    assert "2 runs" in cost
    opened = as_viewer.get(address).content.decode()
    assert re.findall(r'value="(\w+)" checked', opened) == ["same"], (
        "a button that is there to be pressed does something"
    )
    assert "5 runs" in opened
    assert as_stranger.get(address).status_code == 404
    assert as_viewer.post(address, sent).status_code == 403
    assert as_debugger.post(address, {"times": "2"}).status_code == 422
    assert as_debugger.post(address, {**sent, "times": "x"}).status_code == 422
    assert Run.objects.count() == 1
    assert as_debugger.post(address, sent).status_code == 302
    assert Run.objects.filter(parent=run).count() == 2
    assert "every 2s" in as_debugger.get(address).content.decode()
    assert as_debugger.post(address, {"stop": "1"}).status_code == 302
    assert not Run.objects.filter(parent=run).exclude(state="finished").exists()
    assert 'id="matrix-picture"' in as_debugger.get(address).content.decode()
