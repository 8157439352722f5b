"""A fork over the memory of an earlier moment: its topics, people and facts, whatever was changed since."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import knowledge
from memoryapp.engine.events import CandidatesFound, TurnStarted
from memoryapp.insight.explain.why_not import searched_at_of
from memoryapp.intake.archiving import archive
from memoryapp.memory.past import moment_of, rows_at
from memoryapp.memory.sessions import limits
from memoryapp.models import Fact, Run, Topic, TopicEdit
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import Clients
from memoryapp.runs.replays import ForkError
from memoryapp.search.vectors import embed_pending
from tests.intake.test_archiving import in_pairs
from tests.memory.test_active_sessions import speak_now
from tests.support.executing import events_of, memory_of_three, start

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


async def ran(run: Run, clients: Clients) -> list[Any]:
    await lifecycle.execute(run.pk, clients)
    await run.arefresh_from_db()
    return await events_of(run)


def ids(events: list[Any]) -> set[str]:
    [found] = [event for event in events if isinstance(event, CandidatesFound)]
    return {candidate.id for candidate in found.candidates}


def prompts(events: list[Any]) -> str:
    return str([event.prompt for event in events if isinstance(event, TurnStarted)])


@pytest.mark.parametrize("strategy", ["flash", "filter", "vector"])
async def test_it_searches_the_topics_of_that_day(clients: Clients, strategy: str) -> None:
    anna = await memory_of_three()
    before = {f"Topic:{topic.pk}" async for topic in Topic.objects.of(anna)}
    run = await start(anna, strategy=strategy)
    await ran(run, clients)
    moment = timezone.now().isoformat()
    numbers = sorted(int(id.partition(":")[2]) for id in before)[:2]
    merge = await sync_to_async(curation.plan_merge)(anna, numbers)
    await sync_to_async(curation.swap)(anna, merge, kind=TopicEdit.Kind.MERGE, actor="cora")
    await speak_now(anna, "The H100 is out of memory again", "Lower it further.")
    await sync_to_async(archive)(anna, in_pairs, limits(anna), now=True)
    await embed_pending(offline_embedder())
    now = {f"Topic:{topic.pk}" async for topic in Topic.objects.of(anna).live()}
    past, today = [
        await sync_to_async(forks.fork)(run, turn=None, changes={"as_of": when})
        for when in (moment, timezone.now().isoformat())
    ]
    found, latest = await ran(past, clients), await ran(today, clients)
    assert (ids(found), ids(latest)) == (before, now)
    assert "again" not in prompts(found)


async def test_facts_are_those_of_that_day(clients: Clients) -> None:
    anna = await memory_of_three()
    values = {"relation": "home", "category": "c", "type": Fact.Type.IDENTITY, "importance": 90}
    made = await sync_to_async(knowledge.create)(anna, "fact", {**values, "content": "lives in Riga"}, actor="cora")
    fact = await Fact.objects.aget(pk=knowledge.number_made(made))
    run = await start(anna)
    await ran(run, clients)
    moment = timezone.now()
    await sync_to_async(knowledge.edit)(anna, fact, {"content": "lives in Oslo"}, actor="cora")
    other = await sync_to_async(knowledge.create)(anna, "fact", {**values, "content": "owns a boat"}, actor="cora")
    fork = await sync_to_async(forks.fork)(run, turn=None, changes={"as_of": moment.isoformat()})
    shown = prompts(await ran(fork, clients))
    assert ("Riga" in shown, "Oslo" in shown, "boat" in shown) == (True, False, False)
    await sync_to_async(knowledge.delete)(anna, await Fact.objects.aget(pk=knowledge.number_made(other)), actor="cora")
    then, long_ago = [
        {row["content"] for row in (await sync_to_async(rows_at)(anna.pk, "fact", at)).values()}
        for at in (moment, moment - timedelta(days=1))
    ]
    assert (then, long_ago) == ({"lives in Riga"}, set())


@pytest.mark.parametrize("value", ["soon", "2026-13-40", "", 7])
async def test_what_is_no_day_is_refused(clients: Clients, value: Any) -> None:
    anna = await memory_of_three()
    run = await start(anna)
    await ran(run, clients)
    with pytest.raises(ForkError):
        await sync_to_async(forks.fork)(run, turn=None, changes={"as_of": value})
    answered = await start(anna, strategy="plain")
    await ran(answered, clients)
    with pytest.raises(ForkError, match="answer in words"):
        await sync_to_async(forks.fork)(answered, turn=None, changes={"as_of": "2026-03-02"})


def test_a_day_means_its_end() -> None:
    assert timezone.localtime(moment_of("2026-03-02")).isoformat().startswith("2026-03-02T23:59:59")
    assert moment_of("2026-03-02T10:00:00+02:00").isoformat() == "2026-03-02T08:00:00+00:00"
    assert moment_of("2999-01-01") <= timezone.now()


async def test_a_question_to_an_earlier_day_and_its_forks_search_that_day(clients: Clients) -> None:
    anna = await memory_of_three()
    before = {f"Topic:{topic.pk}" async for topic in Topic.objects.of(anna)}
    moment = timezone.now()
    numbers = sorted(int(id.partition(":")[2]) for id in before)[:2]
    merge = await sync_to_async(curation.plan_merge)(anna, numbers)
    await sync_to_async(curation.swap)(anna, merge, kind=TopicEdit.Kind.MERGE, actor="cora")
    await speak_now(anna, "The H100 is out of memory again", "Lower it further.")
    run = await start(anna, as_of=moment)
    events = await ran(run, clients)
    assert ids(events) == before
    assert "again" not in prompts(events)
    assert await sync_to_async(searched_at_of)(run) == moment
    again = await sync_to_async(forks.fork)(run, turn=0, changes={})
    assert ids(await ran(again, clients)) == before, "searched anew, and over the same day"
    now = await sync_to_async(forks.fork)(run, turn=None, changes={"as_of": timezone.now().isoformat()})
    assert ids(await ran(now, clients)) != before
