"""A past run tried again: what can be tried on it, and that only the prompt in question differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from memoryapp.engine.events import CandidatesFound, Event, QueryEnriched, RunFinished, RunStarted, TurnStarted
from memoryapp.engine.prompts import BUILT_IN
from memoryapp.models import ChatUser, Fact, Message, Prompt, QueryVector, Run
from memoryapp.runs import lifecycle, trials
from memoryapp.runs.clients import open_clients
from memoryapp.runs.recall.request import Replayed
from tests.engine.scripted import ScriptedChat, Step, asks, chooses, says
from tests.support.executing import QUERY, events_of, memory_of_three, start

ASKED = {"query": "> vllm?", "profile": "> Anna"}
STARTED = RunStarted("flash", "vllm?", {}, "rerank-en-0", "peer", "")
ENRICHED = QueryEnriched("vllm?", "vllm H100", "", 0.1, 9, 1, 0.5, prompt_version="enrich-en-2", variables=ASKED)
FOUND = CandidatesFound((), 0, 0.02)
TURN = TurnStarted(1, "none", "none", (), "rerank-en-0", {**ASKED, "inner_circle": "> Misha", "topic_candidates": "x"})
ENDED = RunFinished((), (), "", "", baseline=("Topic:1",))
WHOLE: list[Event] = [STARTED, ENRICHED, FOUND, TURN, ENDED]


def without(*kinds: type[Any]) -> list[Event]:
    return [event for event in WHOLE if not isinstance(event, kinds)]


def test_a_run_that_asked_both_models_can_be_tried_with_either_prompt() -> None:
    used = trials.prompts_used(WHOLE)
    assert {name: (each.key, each.label) for name, each in used.items()} == {
        "rerank": (("rerank", "en"), "rerank-en-0"),
        "enrich": (("enrich", "en"), "enrich-en-2"),
    }
    assert used["enrich"].variables == ASKED


@pytest.mark.parametrize(
    ("events", "names"),
    [
        ([], []),
        (without(RunFinished), []),
        (without(TurnStarted), ["enrich"]),
        (without(QueryEnriched), ["rerank"]),
        (without(CandidatesFound), ["enrich"]),
        ([replace(ENRICHED, prompt_version="", variables={}), FOUND, TURN, ENDED], ["rerank"]),
        ([replace(ENRICHED, prompt_version="flash-1"), FOUND, replace(TURN, variables={}), ENDED], []),
    ],
)
def test_a_prompt_that_no_model_received_cannot_be_tried(events: list[Event], names: list[str]) -> None:
    assert list(trials.prompts_used(events)) == names


def test_a_reranker_meets_the_same_line_and_candidates_at_no_cost() -> None:
    replayed = trials.replay(WHOLE, "rerank")
    assert replayed.query == replace(ENRICHED, seconds=0.0, input_tokens=0, output_tokens=0, cost_usd=0.0)
    assert (replayed.found, replayed.baseline) == (replace(FOUND, seconds=0.0), ("Topic:1",))
    assert replayed.rerank_variables == TURN.variables


def test_an_enricher_meets_the_same_question_and_what_it_leads_to_is_made_anew() -> None:
    replayed = trials.replay(WHOLE, "enrich")
    assert (replayed.query, replayed.found, replayed.baseline) == (None, None, ())
    assert replayed.enrich_variables == ASKED
    assert replayed.rerank_variables == {**ASKED, "inner_circle": "> Misha"}


def test_a_reranker_that_was_never_asked_gets_the_variables_of_the_enricher() -> None:
    assert trials.replay(without(TurnStarted), "enrich").rerank_variables == ASKED


@pytest.mark.parametrize("tried", ["rerank", "enrich"])
def test_of_a_run_that_never_searched_nothing_is_taken(tried: str) -> None:
    assert trials.replay([STARTED], tried) == Replayed()


# A query to which both lines of the enricher are related.
BOTH = "The cake, and what ran out of memory?"


def one(events: Sequence[Any], kind: type[Any]) -> Any:
    return next(event for event in events if isinstance(event, kind))


async def execute(run: Run, enricher: ScriptedChat | None, *steps: Step) -> list[Any]:
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, enricher=enricher, chat=ScriptedChat(*steps)))
    return await events_of(run)


async def draft() -> Prompt:
    user = BUILT_IN["enrich", "en"].user
    return await Prompt.objects.acreate(
        name="enrich", language="en", version=1, system="Repeat it.", user=user, made_by="ada"
    )


@pytest.fixture
async def memory() -> ChatUser:
    return await memory_of_three()


@pytest.fixture
async def topics(memory: ChatUser) -> list[int]:
    return [topic.pk async for topic in memory.topic_set.order_by("pk")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
class TestAnEnrichersPrompt:
    async def test_only_the_line_and_what_search_makes_of_it_differ(self, memory: ChatUser, topics: list[int]) -> None:
        vllm, cake, _knee = topics
        parent = await start(memory, BOTH)
        before = await execute(parent, ScriptedChat(says(QUERY)), asks(vllm), chooses(vllm))
        await Fact.objects.acreate(
            owner=memory, relation="has", category="home", content="two cats", type="identity", importance=90,
            created_at=timezone.now(),
        )  # fmt: skip
        await Message.objects.acreate(
            owner=memory, external_id="x", role="user", text="By the way!", sent_at=timezone.now()
        )
        again = await start(memory, BOTH, parent=parent, prompt=await draft())
        enricher = ScriptedChat(says("a honey cake for a birthday"))
        after = await execute(again, enricher, asks(cake), chooses(cake))
        assert [message["content"] for message in enricher.requests[0].messages][0] == "Repeat it."
        lines = [one(events, QueryEnriched) for events in (before, after)]
        assert lines[0].variables == lines[1].variables
        assert (lines[1].prompt_version, lines[1].enriched) == ("enrich-en-1", "a honey cake for a birthday")
        found = [one(events, CandidatesFound).candidates[0].id for events in (before, after)]
        assert found == [f"Topic:{vllm}", f"Topic:{cake}"]
        turns = [one(events, TurnStarted) for events in (before, after)]
        assert turns[0].prompt_version == turns[1].prompt_version == one(after, RunStarted).prompt_version
        differing = {name for name in turns[0].variables if turns[0].variables[name] != turns[1].variables[name]}
        assert differing == {"enriched", "topic_candidates"}
        assert [topic.id for topic in one(after, RunFinished).selected] == [f"Topic:{cake}"]

    async def test_its_query_is_compared_by_a_vector_of_its_own(self, memory: ChatUser, topics: list[int]) -> None:
        parent = await start(memory, BOTH)
        await execute(parent, ScriptedChat(says(QUERY)), asks(topics[0]), chooses(topics[0]))
        again = await start(memory, BOTH, parent=parent, prompt=await draft())
        after = await execute(again, ScriptedChat(says("a honey cake")), asks(topics[1]), chooses(topics[1]))
        kept = {row.run_id: list(row.vector) async for row in QueryVector.objects.all()}
        assert kept[again.pk] != kept[parent.pk]
        assert one(after, RunFinished).baseline[0] == f"Topic:{topics[1]}"

    async def test_without_a_model_it_says_so_and_searches_as_typed(self, memory: ChatUser, topics: list[int]) -> None:
        parent = await start(memory)
        await execute(parent, ScriptedChat(says("the cake")), asks(topics[0]), chooses(topics[0]))
        again = await start(memory, parent=parent, prompt=await draft())
        line = one(await execute(again, None, asks(topics[0]), chooses(topics[0])), QueryEnriched)
        assert (line.enriched, line.note) == (QUERY, "no_model")

    async def test_the_prompt_in_force_chooses(self, memory: ChatUser, topics: list[int]) -> None:
        parent = await start(memory)
        await execute(parent, ScriptedChat(says(QUERY)), asks(topics[0]), chooses(topics[0]))
        text = BUILT_IN["rerank", "en"]
        await Prompt.objects.acreate(
            name="rerank", language="en", version=4, system="Choose well.", user=text.user, made_by="ada", in_force=True
        )
        again = await start(memory, parent=parent, prompt=await draft())
        after = await execute(again, ScriptedChat(says(QUERY)), asks(topics[0]), chooses(topics[0]))
        assert one(after, TurnStarted).prompt_version == one(after, RunStarted).prompt_version == "rerank-en-4"
