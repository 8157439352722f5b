"""Counterfactuals are true: the fork that each of them names does what it says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext
from psycopg import AsyncCursor

from memoryapp.engine.events import CandidatesFound, RunFinished, TopicsRead
from memoryapp.insight.explain import Explanation, why_not
from memoryapp.insight.explain.counterfactuals import Counterfactual
from memoryapp.models import EmbeddingProfile, QueryVector, Run, Suggestion, Topic
from memoryapp.platform import database
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search import retrieval
from memoryapp.search.similarity import Question
from memoryapp.search.vectors import embed_pending
from tests.engine.scripted import ScriptedChat, says
from tests.explain.planted import QUERY, ByPlace, Memory, executed, seeded, shown_by
from tests.support.executing import events_of, start

pytestmark = pytest.mark.django_db(transaction=True)

explained = sync_to_async(why_not)


@pytest.fixture
async def memory() -> Memory:
    made = await sync_to_async(seeded)(7)
    await embed_pending(offline_embedder())
    await EmbeddingProfile.objects.aupdate(threshold=0.97)
    return made


async def forked(run: Run, tried: Counterfactual, chat: Any = None) -> list[Any]:
    """The events of the fork that the counterfactual names."""
    assert tried.fork is not None
    made = await sync_to_async(forks.fork)(run, **tried.fork)
    async with open_clients() as clients:
        await lifecycle.execute(made.pk, replace(clients, enricher=None, chat=chat or clients.chat))
    return await events_of(made)


def one(events: Sequence[Any], kind: type[Any]) -> Any:
    return next(event for event in events if isinstance(event, kind))


def named(found: Explanation, change: str) -> Counterfactual:
    return next(each for each in found.counterfactuals if each.change.startswith(change))


async def lost_beyond(run: Run, memory: Memory) -> str:
    shown = await shown_by(run)
    return next(f"Topic:{topic.pk}" for topic in memory.garden if topic.pk not in shown)


async def test_more_candidates_show_the_topic_at_the_rank_that_was_said(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0,), (0,)), parameters={"candidates": 3})
    topic = await lost_beyond(run, memory)
    tried = named(await explained(run, topic=topic), "25 candidates")
    candidates = one(await forked(run, tried, ByPlace((0,), (0,))), CandidatesFound).candidates
    assert [each.rank for each in candidates if each.id == topic] == [tried.rank]
    assert tried.shown


async def test_without_the_enricher_the_topic_has_the_rank_that_was_said(memory: Memory) -> None:
    run = await start(memory.owner, QUERY, parameters={"candidates": 2})
    enricher = ScriptedChat(says(f"{QUERY} {memory.subjects[7]} {memory.subjects[8]} upstairs"))
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, enricher=enricher, chat=ByPlace((0,), (0,))))
    await run.arefresh_from_db()
    found = [await explained(run, topic=f"Topic:{topic.pk}") for topic in memory.garden]
    tried = {
        each.topic: change
        for each in found
        for change in each.counterfactuals
        if change.change.startswith("without the enricher")
    }
    assert tried
    ranked = one(await forked(run, next(iter(tried.values())), ByPlace((0,), (0,))), CandidatesFound).candidates
    ranks = {each.id: (each.rank, each.shown) for each in ranked}
    assert {id: (each.rank, each.shown) for id, each in tried.items()} == {id: ranks[id] for id in tried}


async def test_other_cuts_keep_the_topic(memory: Memory) -> None:
    cuts = {"initial_threshold": 0.0, "threshold": 0.9, "score_gap": 0.02, "final_top_k": 1}
    run = await executed(memory.owner, strategy="filter", parameters=cuts)
    for topic in memory.garden[:3]:
        found = await explained(run, topic=f"Topic:{topic.pk}")
        if found.stage == "cut":
            (tried, *_more) = found.counterfactuals
            ended = one(await forked(run, tried), RunFinished)
            assert f"Topic:{topic.pk}" in [each.id for each in ended.selected]


async def test_a_higher_limit_keeps_what_the_model_had_chosen_and_asks_nobody(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0, 1), (0, 1)), parameters={"max_topics": 1})
    second = one(await events_of(run), TopicsRead).read[1].id
    (tried,) = (await explained(run, topic=second)).counterfactuals
    unasked = ScriptedChat()
    ended = one(await forked(run, tried, unasked), RunFinished)
    assert [each.id for each in ended.selected][1:] == [second]
    assert unasked.requests == []


async def test_more_room_lets_the_topic_be_read(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0, 1), (0,)), parameters={"read_chars": 1000})
    omitted = one(await events_of(run), TopicsRead).omitted[0].id
    (tried,) = (await explained(run, topic=omitted)).counterfactuals
    events = await forked(run, tried, ScriptedChat(says('{"topics": []}')))
    assert omitted in [topic.id for topic in one(events, TopicsRead).read]


async def test_without_its_filters_the_run_finds_the_topic(memory: Memory) -> None:
    day = f"{memory.garden[0].started_at:%Y-%m-%d}"
    topic = f"Topic:{memory.garden[4].pk}"
    given = await executed(memory.owner, strategy="vector", parameters={"until": day})
    typed = await executed(memory.owner, strategy="vector", query=f"{QUERY} until:{day}")
    for run in (given, typed):
        (tried,) = (await explained(run, topic=topic)).counterfactuals
        candidates = one(await forked(run, tried), CandidatesFound).candidates
        assert [each.rank for each in candidates if each.id == topic] == [tried.rank]


async def test_merging_is_tried_where_it_is_suggested_and_named_where_it_helps(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0,), (0,)), parameters={"candidates": 3})
    topic, near = await lost_beyond(run, memory), (await shown_by(run))[0]
    pair = [int(topic.removeprefix("Topic:")), near]
    await Suggestion.objects.acreate(owner=memory.owner, kind="merge", key="k", topics=pair, score=1.0)
    tried = named(await explained(run, topic=topic), "merging")
    assert set(tried.merge) == {f"Topic:{number}" for number in pair}
    assert tried.rank is not None
    assert (tried.rank <= 3, tried.fork) == (True, None)


async def test_forks_that_were_made_are_counted(memory: Memory) -> None:
    run = await executed(memory.owner, chat=ByPlace((0, 1), (0,)))
    second = one(await events_of(run), TopicsRead).read[1].id
    assert (await explained(run, topic=second)).counterfactuals == ()
    for chosen in ((0,), (1,), (1, 0)):
        fork = await sync_to_async(forks.fork)(run, turn=1, changes={"parameters": {"max_topics": 9}})
        async with open_clients() as clients:
            await lifecycle.execute(fork.pk, replace(clients, enricher=None, chat=ByPlace((0, 1), chosen)))
    (tried,) = (await explained(run, topic=second)).counterfactuals
    assert (tried.change, tried.result) == ("max_topics 9", "chosen in 2 of 3 forks")


class Counted(AsyncCursor[Any]):
    """Keeps the statements that are executed."""

    statements: list[str] = []

    async def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        self.statements.append(str(query))
        return await super().execute(query, *arguments, **options)


OF_SEARCH = ("memoryapp_passage", "memoryapp_card", "memoryapp_topic", "memoryapp_message", "to_tsvector")


def of_search(statements: Sequence[str]) -> int:
    return sum(any(name in sql for name in OF_SEARCH) for sql in statements)


async def test_it_costs_less_than_one_and_a_half_searches(memory: Memory) -> None:
    """Statements that read the memory, side by side, each without caches; vectors are read once by both."""
    run = await executed(memory.owner, chat=ByPlace((0,), (0,)), parameters={"candidates": 3})
    topic = await lost_beyond(run, memory)
    vector = await QueryVector.objects.aget(run=run)

    def asked() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert why_not(run, topic=topic).counterfactuals
        return [query["sql"] for query in captured.captured_queries]

    explaining = await sync_to_async(asked)()
    question = Question(memory.owner.pk, QUERY, vector.vector, vector.profile_id, 512)
    Counted.statements = []
    async with database.pool() as pool, pool.connection() as connected:
        connected.cursor_factory = Counted
        await retrieval.search(connected, question)
        connected.cursor_factory = AsyncCursor
    assert sum("memoryapp_passagevector" in sql for sql in explaining) == 1
    assert of_search(explaining) < 1.5 * of_search(Counted.statements)


async def test_a_topic_of_another_memory_and_one_that_never_was_are_answered_alike(memory: Memory) -> None:
    run = await executed(memory.owner, strategy="vector")
    stranger = await sync_to_async(seeded)(8)
    theirs = await Topic.objects.filter(owner=stranger.owner).order_by("pk").afirst()
    assert theirs is not None
    message = (await theirs.topicmessage_set.select_related("message").afirst()).message  # type: ignore[union-attr]
    answers = [
        await explained(run, topic=f"Topic:{theirs.pk}"),
        await explained(run, topic="Topic:987654"),
        await explained(run, message=f"Message:{message.pk}"),
    ]
    said, never = [await explained(run, text=text) for text in (theirs.summary, "Zwieback qqxz vvkpt")]
    assert (said.stage, said.sentence) == (never.stage, never.sentence) == ("unknown", said.sentence)
    assert {answer.stage for answer in answers} == {"unknown"}
    assert len({answer.sentence for answer in answers}) == 1
    assert {answer.now for answer in answers} == {()}
