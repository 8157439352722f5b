"""Every way in which a run can end, in its rows and on its page: one last event, correct totals, and an explanation."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils.html import escape

from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import LLMRefused, LLMTimeout, LLMUnavailable, Reply
from memoryapp.engine.events import CandidatesFound, RunFinished, ToolCall
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Operator, Run, RunEvent, RunProgress
from memoryapp.runs import lifecycle, recall_document
from memoryapp.runs.clients import open_clients
from rerankui.runs.page.outcomes import ADVICE, SENTENCES
from tests.conftest import signed_in
from tests.engine.scripted import ScriptedChat, Step, asks, calls, chooses, fails, limited, says, slow
from tests.support.answers import document_of
from tests.support.browsing import flat
from tests.support.clock import PATIENCE
from tests.support.executing import Faulty, Silent, events_of, executed, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

READ = "topic it had asked to read is used instead"
VECTORS = "nearest by vectors"
NOTHING = "Nothing is used instead."
EVERYTHING = "vLLM out of memory, a honey cake, and the meniscus"


@dataclass(frozen=True)
class End:
    """A script over topics 1, 2, 3 of the memory, and the end that it must have."""

    code: str
    steps: Callable[[int, int, int], tuple[Step, ...]]
    used: str
    turns: int
    parameters: dict[str, Any] = field(default_factory=dict)


ENDS = {
    "all hallucinated": End("all_hallucinated", lambda a, b, c: (asks(a), says("[98, 99]")), NOTHING, 2),
    "answer without reading": End("protocol_violation", lambda a, b, c: (chooses(a),), VECTORS, 1),
    "no JSON after reading": End("parse_error", lambda a, b, c: (asks(b), says("I'd rather talk.")), READ, 2),
    "no JSON, nothing read": End(
        "protocol_violation", lambda a, b, c: (calls(ToolCall("a", TOOL_NAME, "{}")), says("hm")), VECTORS, 2
    ),
    "no JSON, nothing to be read": End(
        "parse_error",
        lambda a, b, c: (calls(ToolCall("a", TOOL_NAME, "{}")), says("hm")),
        VECTORS,
        2,
        {"tool_mode": "auto"},
    ),
    "declined": End("refused", lambda a, b, c: (Step(Reply("", refusal="I can't help.")),), VECTORS, 1),
    "declined after reading": End(
        "content_filter",
        lambda a, b, c: (asks(b), Step(Reply("I can't help.", finish_reason="content_filter"))),
        READ,
        2,
    ),
    "late before reading": End("timeout", lambda a, b, c: (slow(asks(a)),), VECTORS, 1, {"seconds": 100}),
    "late after reading": End("timeout", lambda a, b, c: (asks(b), slow(chooses(a))), READ, 2, {"seconds": 100}),
    "slow turn": End("turn_timeout", lambda a, b, c: (slow(asks(a)),), VECTORS, 1, {"turn_seconds": 100}),
    "slow turn after reading": End(
        "turn_timeout", lambda a, b, c: (asks(b), slow(chooses(a))), READ, 2, {"turn_seconds": 100}
    ),
    "client gave up": End(
        "turn_timeout", lambda a, b, c: (fails(LLMTimeout("No answer.")),), VECTORS, 1, {"turn_seconds": 5}
    ),
    "keeps asking": End(
        "max_tool_calls", lambda a, b, c: (asks(b), asks(b, call="d"), asks(b, call="e"), asks(b, call="f")), READ, 4
    ),
    "refused": End("llm_error", lambda a, b, c: (fails(LLMRefused("401: no such key")),), VECTORS, 1),
    "broke after reading": End("llm_error", lambda a, b, c: (asks(b), fails(LLMUnavailable("502: gone"))), READ, 2),
    "silent": End("empty_response", lambda a, b, c: (says(""), says(" ")), VECTORS, 2),
    "silent after reading": End("empty_response", lambda a, b, c: (asks(b), says(""), says("")), READ, 3),
}


async def page_of(run: Run, admin: Operator) -> str:
    return await sync_to_async(lambda: flat(signed_in(admin).get(f"/runs/{run.pk}/").content.decode()))()


async def check_whole(run: Run, events: list[Any], fallback: str) -> RunFinished:
    """Checks what is true of every ended run; returns its last event."""
    await run.arefresh_from_db()
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert [event.kind for event in events].count("run_finished") == 1
    assert [seq async for seq in RunEvent.objects.filter(run=run).values_list("seq", flat=True)] == list(
        range(1, len(events) + 1)
    )
    assert (run.state, run.fallback, finished.fallback) == (Run.State.FINISHED, fallback, fallback)
    assert run.finished_at
    assert run.selected_count == len(finished.selected)
    assert run.selected_people_count == len(finished.people)
    assert run.selected_artifact_count == len(finished.artifacts)
    assert not await RunProgress.objects.aexists()
    assert await sync_to_async(lambda: list(violations()))() == []
    return finished


@pytest.mark.parametrize("name", ENDS)
async def test_a_rerank_that_does_not_choose_ends_once_and_is_explained(name: str, admin: Operator) -> None:
    end, memory = ENDS[name], await memory_of_three()
    ids = [topic.pk async for topic in memory.topic_set.order_by("pk")]
    run = await start(memory, EVERYTHING, parameters={"seconds": 300, "turn_seconds": 300, **end.parameters})
    events = await executed(run, chat=ScriptedChat(*end.steps(*ids)))
    finished = await check_whole(run, events, end.code)
    assert run.turns == end.turns
    assert not finished.people
    assert not finished.artifacts
    page = await page_of(run, admin)
    assert escape(str(SENTENCES[end.code])) in page
    assert end.used in page
    assert escape(str(ADVICE[end.code])).partition("%")[0] in page
    if "declined" in name:
        assert page.count("I can&#x27;t help.") >= 2
    if end.used == READ:
        assert [selected.id for selected in finished.selected] == [f"Topic:{ids[1]}"]
    if end.used == VECTORS:
        assert [selected.id for selected in finished.selected] == list(finished.baseline[:5])


async def test_a_choice_that_was_cut_says_so_on_the_page_and_in_the_document(admin: Operator) -> None:
    memory = await memory_of_three()
    first = await memory.topic_set.order_by("pk").afirst()
    assert first
    run = await start(memory)
    cut = limited(f'{{"topics": [{{"id": "Topic:{first.pk}", "reason": "cake"}}, {{"id": "Top')
    finished = await check_whole(run, await executed(run, chat=ScriptedChat(asks(first.pk), cut)), "")
    assert [selected.id for selected in finished.selected] == [f"Topic:{first.pk}"]
    document = await sync_to_async(document_of)(run)
    assert (document["cut"], document["fallback"]) == (True, None)
    assert "The model reached its limit of tokens; its reply may be cut off." in await page_of(run, admin)


async def test_a_topic_chosen_without_being_read_is_marked_on_the_page_and_in_the_answer(admin: Operator) -> None:
    memory = await memory_of_three()
    a, b, _ = [topic.pk async for topic in memory.topic_set.order_by("pk")]
    run = await start(memory, EVERYTHING)
    await check_whole(run, await executed(run, chat=ScriptedChat(asks(a), chooses(a, b))), "")
    document = await sync_to_async(document_of)(await Run.objects.aget(pk=run.pk))
    assert [(topic["id"], topic["read"]) for topic in document["topics"]] == [
        (f"Topic:{a}", True),
        (f"Topic:{b}", False),
    ]
    assert (await page_of(run, admin)).count("without reading it") == 1


async def test_a_choice_of_nothing_is_respected_and_shown(admin: Operator) -> None:
    memory = await memory_of_three()
    first = await memory.topic_set.order_by("pk").afirst()
    assert first
    run = await start(memory)
    events = await executed(run, chat=ScriptedChat(asks(first.pk), says('{"topics": []}')))
    finished = await check_whole(run, events, "")
    assert (finished.selected, finished.dropped) == ((), (f"Topic:{first.pk}",))
    assert "The model read 1 topic and found nothing relevant" in await page_of(run, admin)


async def test_the_embedded_scorer_says_that_it_is_unsure_and_shows_what_is_nearest(admin: Operator) -> None:
    memory = await memory_of_three()
    run = await start(memory, "Who stood beside me at the altar?")
    events = await executed(run)
    assert not (await check_whole(run, events, "")).selected
    page = await page_of(run, admin)
    assert "Not sure: no chat model is connected, and none of the 2 topics" in page
    nearest = page.partition("Not sure; nearest:")[2]
    [found] = [event for event in events if isinstance(event, CandidatesFound)]
    assert [f">{each.id}<" in nearest for each in found.candidates if each.shown] == [True, True]
    assert "Nothing of the memory was chosen" not in page
    answer = await sync_to_async(lambda: flat(signed_in(admin).get(f"/runs/{run.pk}/answer/").content.decode()))()
    assert "Not sure; nearest:" in answer
    assert "They are handed over as possibly related." in page
    document = await sync_to_async(document_of)(await Run.objects.aget(pk=run.pk))
    assert (document["unsure"], document["topics"]) == (True, [])
    related = document["context"].partition("<possibly_related>\n")[2]
    assert [related.count(f"[{each.id}]") for each in found.candidates if each.shown] == [1, 1]
    part = await sync_to_async(recall_document.part_text)(await Run.objects.aget(pk=run.pk), "unsure")
    assert part.startswith("<possibly_related>")
    assert part in document["context"]


async def test_who_wants_nothing_when_unsure_gets_nothing_and_the_page_still_shows_what_is_near(
    admin: Operator,
) -> None:
    run = await start(
        await memory_of_three(), "Who stood beside me at the altar?", parameters={"when_unsure": "nothing"}
    )
    await executed(run)
    document = await sync_to_async(document_of)(await Run.objects.aget(pk=run.pk))
    assert (document["unsure"], "possibly_related" in document["context"]) == (False, False)
    page = await page_of(run, admin)
    assert "Not sure; nearest:" in page
    assert "They are handed over as possibly related." not in page


async def test_the_endpoints_message_and_its_cost_are_kept(admin: Operator) -> None:
    run = await start(await memory_of_three())
    error = LLMRefused("host refuses: 401 <no key>. Look at LLM_API_KEY.", spent=Usage(120, 3, 0.25))
    await check_whole(run, await executed(run, chat=ScriptedChat(fails(error))), "llm_error")
    assert (run.input_tokens, run.output_tokens, run.cost_usd) == (120, 3, 0.25)
    page = await page_of(run, admin)
    assert "host refuses: 401 &lt;no key&gt;" in page.split('class="waterfall"')[0]


async def test_a_model_out_of_reach_costs_nothing_and_its_stand_ins_are_not_called_chosen(admin: Operator) -> None:
    run = await start(await memory_of_three())
    await executed(run, chat=ScriptedChat(fails(LLMRefused("host refuses: 401"))))
    page = await page_of(run, admin)
    head, result = page.split('class="lanes"')[0], page.split('id="lane-result"')[1]
    assert "$0.0000" not in head
    lines = result.split('class="rank-lines is-instead"')[1].split("</figure>")[0]
    assert "used instead" in lines
    assert "chosen</text>" not in lines


async def test_without_candidates_nothing_is_asked_and_nothing_used(admin: Operator) -> None:
    run = await start(await ChatUser.objects.acreate(name="boris"))
    finished = await check_whole(run, await executed(run, chat=Faulty()), "no_candidates")
    assert (finished.selected, run.turns) == ((), 0)
    page = await page_of(run, admin)
    assert escape(str(SENTENCES["no_candidates"])) in page
    assert NOTHING in page


async def test_a_disabled_reranker_is_reported(admin: Operator, settings: Any) -> None:
    settings.RERANKER_ENABLED = False
    run = await start(await memory_of_three())
    finished = await check_whole(run, await executed(run, chat=Faulty()), "disabled")
    assert [selected.id for selected in finished.selected] == list(finished.baseline[:5])
    page = await page_of(run, admin)
    assert "RERANKER_ENABLED=true" in page
    assert VECTORS in page


async def test_a_stopped_run_is_closed_and_says_so(admin: Operator) -> None:
    run = await start(await memory_of_three(), parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE})
    silent = Silent()
    async with open_clients() as clients:
        task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=silent)))
        await silent.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await check_whole(run, await events_of(run), "abandoned")
    assert escape(str(SENTENCES["abandoned"])) in await page_of(run, admin)


async def test_a_fault_of_the_program_ends_the_run_and_is_named(admin: Operator) -> None:
    run = await start(await memory_of_three())
    with pytest.raises(ZeroDivisionError):
        await executed(run, chat=Faulty())
    await check_whole(run, await events_of(run), "crashed")
    assert escape(str(SENTENCES["crashed"])) in await page_of(run, admin)


def test_every_outcome_is_shown_with_advice() -> None:
    assert SENTENCES.keys() == ADVICE.keys()
