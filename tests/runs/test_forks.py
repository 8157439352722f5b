"""A fork of a run: what is replayed, that only its changes differ, and that an unchanged one asks the same."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from memoryapp import curation
from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    RunFinished,
    RunStarted,
    TurnStarted,
)
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.erasure.marks import ERASED
from memoryapp.models import ChatUser, Fact, Prompt, RawReply, Run, RunEvent
from memoryapp.platform.llm import prompt_versions
from memoryapp.runs import endings, forks, lifecycle, replays
from memoryapp.runs.clients import open_clients
from memoryapp.runs.recall.request import Replayed
from tests.engine.endpoint import says as says_by_http
from tests.engine.scripted import ScriptedChat, Step
from tests.support.executing import QUERY, Silent, events_of, memory_of_three, start

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
    used = prompt_versions.prompts_used(WHOLE)
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
    assert list(prompt_versions.prompts_used(events)) == names


def test_a_reranker_meets_the_same_line_and_candidates_at_no_cost() -> None:
    replayed = replays.replay(WHOLE, 1)
    assert replayed.query == replace(ENRICHED, seconds=0.0, input_tokens=0, output_tokens=0, cost_usd=0.0)
    assert (replayed.found, replayed.baseline) == (replace(FOUND, seconds=0.0), ("Topic:1",))
    assert replayed.rerank_variables == TURN.variables


def test_an_enricher_meets_the_same_question_and_what_it_leads_to_is_made_anew() -> None:
    replayed = replays.replay(WHOLE, 0)
    assert (replayed.query, replayed.found, replayed.baseline) == (None, None, ())
    assert replayed.enrich_variables == ASKED
    assert replayed.rerank_variables == {**ASKED, "inner_circle": "> Misha"}


def test_a_reranker_that_was_never_asked_gets_the_variables_of_the_enricher() -> None:
    assert replays.replay(without(TurnStarted), 0).rerank_variables == ASKED


@pytest.mark.parametrize("turn", [0, 1])
def test_of_a_run_that_never_searched_nothing_is_taken(turn: int) -> None:
    assert replays.replay([STARTED], turn) == Replayed()


# A query to which both lines of the enricher are related.
BOTH = "The cake, and what ran out of memory?"


def one(events: Sequence[Any], kind: type[Any]) -> Any:
    return next(event for event in events if isinstance(event, kind))


async def execute(run: Run, enricher: ScriptedChat | None, *steps: Step) -> list[Any]:
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, enricher=enricher, chat=ScriptedChat(*steps)))
    return await events_of(run)


async def draft() -> Prompt:
    user = built_in()["enrich", "en"].user
    return await Prompt.objects.acreate(
        name="enrich", language="en", version=1, system="Repeat it.", user=user, made_by="ada"
    )


@pytest.fixture
async def memory() -> ChatUser:
    return await memory_of_three()


@pytest.fixture
async def topics(memory: ChatUser) -> list[int]:
    return [topic.pk async for topic in memory.topic_set.order_by("pk")]


class Models:
    """An endpoint for every model of a run: it answers by the prompt, and keeps the bodies as they came."""

    def __init__(self, topics: Sequence[int]) -> None:
        self.bodies: list[bytes] = []
        self._topics = topics

    def __call__(self, sent: httpx.Request) -> httpx.Response:
        self.bodies.append(sent.content)
        messages = json.loads(sent.content)["messages"]
        (name,) = [n for n in PROMPTS if messages[0]["content"].startswith(built_in()[n, "en"].system[:40])]
        reads = sum(message["role"] == "tool" for message in messages)
        if name == "rerank" and reads < 2:
            function = {"name": TOOL_NAME, "arguments": json.dumps({"ids": [self._topics[reads]]})}
            # A field that no client knows goes back with the message.
            call = {"id": f"call-{reads}", "type": "function", "function": function, "zeta": [1e-7, {"b": 1, "a": 2}]}
            return says_by_http(None, tool_calls=[call])
        chosen = json.dumps({"topics": [{"id": self._topics[0], "reason": "it does"}]})
        return says_by_http(
            {"enrich": QUERY, "plan": PLAN, "rerank": chosen, "verify": SUPPORTED}.get(name, "Lower it [1].")
        )

    def chat(self) -> HttpChat:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return HttpChat(client, "https://models.example/v1/", "secret-key", "acme/flash", ChatOptions())


PROMPTS = ("enrich", "rerank", "plan", "expand", "answer", "verify")
SUPPORTED = json.dumps({"statements": [{"statement": 1, "sources": [1]}]})
PLAN = json.dumps({"queries": ["gpu memory utilization", "the H100 dies", "crash at start"]})
PARAMETERS: dict[str, dict[str, Any]] = {"react": {"planner": "always", "refine": "off"}}


async def executed(run: Run, models: Models, **given: Any) -> list[Any]:
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, **{"chat": models.chat(), "enricher": models.chat(), **given}))
    await run.arefresh_from_db()
    return await events_of(run)


async def forked(run: Run, turn: int | None = None, **changes: Any) -> Run:
    return await sync_to_async(forks.fork)(run, turn=turn, changes=changes)


async def parent_of(memory: ChatUser, topics: Sequence[int], strategy: str = "flash") -> tuple[Run, list[bytes]]:
    models = Models(topics)
    run = await start(memory, strategy=strategy, parameters={"seconds": 300, **PARAMETERS.get(strategy, {})})
    await executed(run, models)
    return run, models.bodies


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
class TestAFork:
    @pytest.mark.parametrize(("strategy", "turns"), [("flash", 3), ("react", 3), ("plain", 1)])
    async def test_an_unchanged_one_asks_nothing_before_its_turn_and_the_same_bytes_after_it(
        self, memory: ChatUser, topics: list[int], strategy: str, turns: int
    ) -> None:
        parent, sent = await parent_of(memory, topics, strategy)
        before = await events_of(parent)
        # The enricher asks first, and takes no turn.
        enriched = int(strategy != "plain")
        assert len(sent) == enriched + turns
        last = parent
        for turn in range(turns + 1):
            for of in {parent, last}:
                fork, models = await forked(of, turn), Models(topics)
                events = await executed(fork, models)
                assert models.bodies == sent[max(turn - 1 + enriched, 0) :]
                assert [event.kind for event in events] == [event.kind for event in before]
                assert one(events, RunFinished).selected == one(before, RunFinished).selected
                assert (fork.parent_id, fork.turn, fork.changes) == (of.pk, turn, {})
                paid = [event.cost_usd for event in events if isinstance(event, ModelReplied)]
                assert paid == [0.0] * (turn - 1) + [0.5] * (turns - max(turn - 1, 0))
            last = fork

    @pytest.mark.parametrize("strategy", ["filter", "vector"])
    async def test_one_of_a_run_without_a_model_asks_none(
        self, memory: ChatUser, topics: list[int], strategy: str
    ) -> None:
        parent, sent = await parent_of(memory, topics, strategy)
        models = Models(topics)
        events = await executed(await forked(parent), models)
        assert sent == models.bodies == []
        before = await events_of(parent)
        assert one(events, RunFinished).selected == one(before, RunFinished).selected

    async def test_it_is_asked_on_the_day_of_the_first_run(self, memory: ChatUser, topics: list[int]) -> None:
        parent, _sent = await parent_of(memory, topics, "react")
        await Run.objects.filter(pk=parent.pk).aupdate(created_at=datetime(2026, 3, 1, 12, tzinfo=UTC))
        child = await forked(parent)
        await executed(child, Models(topics))
        grandchild, models = await forked(child), Models(topics)
        await executed(grandchild, models)
        assert b"2026-03-01" in models.bodies[0]

    async def test_it_sends_what_was_sent_though_the_memory_has_changed(
        self, memory: ChatUser, topics: list[int]
    ) -> None:
        parent, sent = await parent_of(memory, topics)
        await Fact.objects.acreate(
            owner=memory, relation="has", category="home", content="two cats", type="identity", importance=90,
            created_at=timezone.now(),
        )  # fmt: skip
        change = await sync_to_async(curation.plan_edit)(memory, topics[0], "By another name")
        await sync_to_async(curation.swap)(memory, change, kind="edit", actor="ada")
        for turn in (0, 3):
            models = Models(topics)
            await executed(await forked(parent, turn), models)
            # The query is rewritten from the same talk; the retired topic is read as it was.
            assert models.bodies[:1] == sent[turn : turn + 1]

    async def test_a_typed_reply_takes_the_place_of_the_models(self, memory: ChatUser, topics: list[int]) -> None:
        parent, _sent = await parent_of(memory, topics)
        models = Models(topics)
        fork = await forked(parent, 3, reply='{"topics": []}')
        finished = one(await executed(fork, models), RunFinished)
        assert models.bodies == []
        assert (finished.fallback, finished.selected, finished.totals.cost_usd) == ("", (), 0.0)
        other = await forked(parent, 2, reply="Wait.", max_tool_calls=3)
        assert other.changes == {"reply": "Wait.", "parameters": {"max_tool_calls": 3}}

    async def test_candidates_are_shown_in_the_order_given_and_not_when_left_out(
        self, memory: ChatUser, topics: list[int]
    ) -> None:
        first, second, third = topics
        parent, _sent = await parent_of(memory, topics)
        for changes, shown in (
            ({"candidates": [f"Topic:{third}", second, first]}, [third, second, first]),
            ({"without": f"Topic:{second}"}, [third, first]),
        ):
            parent = await forked(parent, **changes)
            events = await executed(parent, Models([third, first]))
            ids = [f"Topic:{number}" for number in shown]
            found = one(events, CandidatesFound)
            assert [candidate.id for candidate in found.shown] == ids
            assert [candidate.rank for candidate in found.candidates] == [n + 1 for n in range(len(found.candidates))]
            listed = one(events, TurnStarted).variables["topic_candidates"]
            assert [line[1:].partition("]")[0] for line in listed.splitlines()] == ids
            assert [topic.id for topic in one(events, RunFinished).selected] == [f"Topic:{third}"]

    async def test_another_query_is_enriched_and_searched(self, memory: ChatUser, topics: list[int]) -> None:
        parent, _sent = await parent_of(memory, topics)
        fork, models = await forked(parent, query="Which cake?"), Models(topics)
        await executed(fork, models)
        assert (fork.turn, fork.query) == (0, "Which cake?")
        assert "Which cake?" in models.bodies[0].decode()
        assert QUERY not in json.loads(models.bodies[0])["messages"][1]["content"]

    async def test_a_parameter_of_the_search_searches_again_with_the_same_line(
        self, memory: ChatUser, topics: list[int]
    ) -> None:
        parent, sent = await parent_of(memory, topics)
        fork, models = await forked(parent, candidates=[], parameters={"candidates": 1}), Models(topics)
        events = await executed(fork, models)
        assert (fork.turn, fork.parameters["candidates"]) == (1, 1)
        assert len(one(events, CandidatesFound).shown) == 1
        assert len(models.bodies) == len(sent) - 1

    async def test_other_cuts_filter_the_same_candidates(self, memory: ChatUser, topics: list[int]) -> None:
        parent, _sent = await parent_of(memory, topics, "filter")
        events = await executed(await forked(parent, threshold="0.9", final_top_k=1), Models(topics))
        before = await events_of(parent)
        assert one(events, CandidatesFound).candidates == one(before, CandidatesFound).candidates
        assert one(events, RunFinished).selected == ()

    async def test_another_model_is_asked_from_its_turn_on(
        self, memory: ChatUser, topics: list[int], settings: Any
    ) -> None:
        settings.LLM_BASE_URL = "https://models.example/v1"
        parent, _sent = await parent_of(memory, topics)
        fork, models = await forked(parent, 3, model="acme/pro"), Models(topics)
        http = httpx.AsyncClient(transport=httpx.MockTransport(models))
        events = await executed(fork, models, http=http)
        assert [json.loads(body)["model"] for body in models.bodies] == ["acme/pro"]
        assert one(events, RunStarted).model == "acme/pro"

    @pytest.mark.parametrize(
        ("turn", "changes", "sentence"),
        [
            (9, {}, "has 3 turns; it cannot be forked at turn 9"),
            (-1, {}, "cannot be forked at turn -1"),
            (2, {"query": "else"}, "“query” makes a difference at turn 0 at the latest"),
            (2, {"candidates": [], "without": []}, "at turn 1 at the latest"),
            (None, {"reply": "[]"}, "Say at which turn"),
            (None, {"weather": "fine"}, "A fork cannot change “weather”"),
            (None, {"without": ["Topic:987654"]}, "Topic:987654 is not among the candidates"),
            (None, {"prompt": "poem-en-1"}, "There is no prompt “poem-en-1”"),
            (None, {"query": " "}, "must be a text"),
            (None, {"model": "acme/pro"}, "No chat model is connected"),
        ],
    )
    async def test_what_cannot_be_is_said_and_makes_no_run(
        self, memory: ChatUser, topics: list[int], turn: int | None, changes: dict[str, Any], sentence: str
    ) -> None:
        parent, _sent = await parent_of(memory, topics)
        with pytest.raises(replays.ForkError, match=re.escape(sentence)):
            await forked(parent, turn, **changes)
        assert await Run.objects.acount() == 1

    async def test_a_run_without_raw_replies_can_be_forked_where_none_is_needed(
        self, memory: ChatUser, topics: list[int]
    ) -> None:
        parent, sent = await parent_of(memory, topics)
        await RawReply.objects.all().adelete()
        with pytest.raises(replays.ForkError, match="in turn 1 was not stored as it came"):
            await forked(parent, 2)
        models = Models(topics)
        await executed(await forked(parent, 1), models)
        assert models.bodies == sent[1:]

    async def test_erased_words_are_not_replayed(self, memory: ChatUser, topics: list[int]) -> None:
        parent, _sent = await parent_of(memory, topics)
        row = await RunEvent.objects.aget(run=parent, kind="candidates_found")
        row.payload["candidates"][0]["summary"] = ERASED
        await row.asave()
        with pytest.raises(replays.ForkError, match="have been erased"):
            await forked(parent)

    async def test_a_run_that_goes_on_is_not_forked(self, memory: ChatUser) -> None:
        with pytest.raises(replays.ForkError, match="has not ended"):
            await forked(await start(memory))

    async def test_a_fork_costs_about_what_that_part_of_the_run_did(self, memory: ChatUser, topics: list[int]) -> None:
        parent, _sent = await parent_of(memory, topics)
        events = await sync_to_async(forks.events_of)(parent)
        assert [forks.forecast(events, turn).usage.cost_usd for turn in range(4)] == [2.0, 1.5, 1.0, 0.5]

    async def test_one_that_is_stopped_leaves_the_next_one_well(self, memory: ChatUser, topics: list[int]) -> None:
        parent, sent = await parent_of(memory, topics)
        fork, after = await forked(parent, 2), await forked(parent, 2)
        silent = Silent()
        async with open_clients() as clients:
            task = asyncio.create_task(lifecycle.execute(fork.pk, replace(clients, chat=silent, enricher=None)))
            await silent.asked.wait()
            assert await sync_to_async(endings.stop)(fork.pk, "ada")
            await task
        assert (await events_of(fork))[-1].fallback == "stopped"
        models = Models(topics)
        await executed(after, models)
        assert models.bodies == sent[2:]
