"""The stability lab: the same question again, in other orders, and whether the place of a candidate decides."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.test import Client

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.insight.compare import compare, stability
from memoryapp.insight.compare.comparison import CompareError
from memoryapp.insight.compare.stability import WantedRepetitions
from memoryapp.insight.explain import why_not
from memoryapp.models import ChatUser, Prompt, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.replays import ForkError
from memoryapp.search.vectors import embed_pending
from rerankui.runs.page.why_not import view_of
from tests.compare.test_compare_pages import stored
from tests.conftest import talk
from tests.explain.planted import ByPlace, Memory, executed, seeded, shown_by
from tests.runs.stored_events import every_event

pytestmark = pytest.mark.django_db(transaction=True)


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
async def memory() -> Memory:
    made = await sync_to_async(seeded)(3)
    await embed_pending(offline_embedder())
    return made


async def forked(run: Run, chat: ByPlace, **changes: object) -> Run:
    fork = await sync_to_async(forks.fork)(run, changes=changes)
    async with open_clients() as clients:
        await lifecycle.execute(fork.pk, replace(clients, serving=None, chat=chat))
    await fork.arefresh_from_db()
    return fork


async def test_a_seed_shows_the_same_candidates_in_another_order_each_time_the_same(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0,), (0,)))
    before = await shown_by(run)
    orders = [await shown_by(await forked(run, ByPlace((0,), (0,)), order=seed)) for seed in (1, 1, 2)]
    assert sorted(orders[0]) == sorted(before)
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in (before, *orders)}) == 3
    for wrong in (-1, "x", True, 2**40, 1.5):
        with pytest.raises(ForkError, match="whole number"):
            await forked(run, ByPlace((0,), (0,)), order=wrong)
    assert await Run.objects.acount() == 4


async def test_a_model_that_takes_the_first_is_told_from_one_that_takes_what_fits(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0,), (0,)))
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


async def test_only_forks_that_repeat_are_repetitions_and_orders_go_on(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0,), (0,)))
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
    memory: Memory, settings: LazySettings
) -> None:
    chat = ByPlace((0, 1), (0,))
    run = await executed(memory.owner, chat=chat)
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
