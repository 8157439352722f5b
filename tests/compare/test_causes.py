"""Two by two: whether the memory or the model changed what a run chose."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.test import Client

from memoryapp import curation
from memoryapp.engine.chat.protocol import ChatRequest, LLMTimeout, Reply
from memoryapp.engine.events import Event
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.insight.compare import stability
from memoryapp.insight.compare.comparison import CompareError
from memoryapp.models import ChatUser, Run, TopicEdit
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from rerankui.compare.lab import sentence_of
from tests.compare.test_compare_pages import events, stored
from tests.compare.test_stability import memory
from tests.explain.planted import ByPlace, Memory, executed
from tests.support.browsing import get

__all__ = ["events", "memory"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


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


async def merge(memory: Memory, *places: int) -> TopicEdit:
    numbers = [memory.garden[place].pk for place in places]
    plan = await sync_to_async(curation.plan_merge)(memory.owner, numbers)
    edit = await sync_to_async(curation.swap)(memory.owner, plan, kind=TopicEdit.Kind.MERGE, actor="cora")
    await embed_pending(offline_embedder())
    return edit


async def test_a_merge_is_named_as_what_lost_a_topic(memory: Memory) -> None:
    wanted = memory.garden[0].pk
    run = await executed(memory.owner, chat=chat_of(EMBEDDED_MODEL, wanted))
    same = await asked(run, {"": chat_of(EMBEDDED_MODEL, wanted)})
    assert same.is_one_model
    assert same.cause == "none"
    assert len({cell.run.pk for cell in same.cells if cell.run}) == 2, "one model is asked once for each memory"
    edit = await merge(memory, 0, 1)
    changed = await asked(run, {"": chat_of(EMBEDDED_MODEL, wanted)}, again=True)
    assert changed.cause == "memory"
    assert "same as then" in str(sentence_of(changed))
    [lost] = changed.lost
    assert f"Topic:{wanted}" in lost.topic.lineage.ids
    assert lost.edit == edit
    [then, *_rest] = changed.cells
    assert [id for id, _topic in then.named] == [f"Topic:{wanted}"], "under the number that it had then"


async def test_a_model_that_chooses_otherwise_over_the_same_memory_is_named(
    memory: Memory, settings: LazySettings
) -> None:
    first, second = memory.garden[0].pk, memory.garden[1].pk
    run = await executed(memory.owner, chat=chat_of(OLD, first))
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
    await merge(memory, 0, 2)
    either = await asked(run, {OLD: chat_of(OLD, first), "": chat_of(NEW, second)}, again=True)
    assert either.cause == "either"
    unsteady = await asked(run, {OLD: chat_of(OLD, second), "": chat_of(NEW, second)}, again=True)
    assert unsteady.cause == "luck"


class Failing(ByPlace):
    """A model whose endpoint does not answer."""

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise LLMTimeout("late")
        yield


async def test_a_failure_is_no_cause_and_only_what_failed_is_asked_again(memory: Memory) -> None:
    wanted = memory.garden[0].pk
    run = await executed(memory.owner, chat=chat_of(EMBEDDED_MODEL, wanted))
    failing = Failing((0,), (0,))
    failing.model = EMBEDDED_MODEL
    failed = await asked(run, {"": failing})
    assert failed.cause == "failed"
    assert all(cell.has_failed for cell in failed.cells)
    well = await asked(run, {"": chat_of(EMBEDDED_MODEL, wanted)})
    assert well.cause == "none"
    assert not well.missing


async def test_what_answers_in_words_or_goes_on_is_refused(memory: Memory) -> None:
    answered = await executed(memory.owner, strategy="plain")
    with pytest.raises(CompareError, match="memory of today only"):
        await sync_to_async(lambda: stability.causes(answered, forks.events_of(answered)))()
    going = await Run.objects.acreate(owner=memory.owner, query="garden?", strategy="flash")
    with pytest.raises(CompareError, match="has not ended"):
        await sync_to_async(lambda: stability.begin_causes(going, [], None))()


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
