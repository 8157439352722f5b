"""What is pinned is handed over with every recall, what is never recalled with none; by page, by API, with undo."""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.urls import reverse
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import CurationError, Stale, knowledge
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.insight.explain import why_not
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Fact, KnowledgeEdit, Person, Role, Run, Topic, TopicEdit
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.clients import Clients
from memoryapp.runs.replays import ForkError
from tests.conftest import operator, signed_in, talk
from tests.support.answers import document_of
from tests.support.api_client import Program, error_of, token_for
from tests.support.executing import QUERY, background_of, events_of, memory_of_three, start

# Two topics speak of it.
BOTH = f"{QUERY}, and which cake for a birthday?"
STRATEGIES = ["flash", "filter", "vector", "react", "plain"]
over_runs = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


async def recalled(owner: ChatUser, clients: Clients, query: str = QUERY, **given: Any) -> tuple[Run, list[Any], Any]:
    """The run, its events, and its document."""
    run = await start(owner, query, **given)
    await lifecycle.execute(run.pk, clients)
    await sync_to_async(run.refresh_from_db)()
    return run, await events_of(run), await sync_to_async(document_of)(run)


async def decide(row: Any, recall: str) -> KnowledgeEdit:
    return await sync_to_async(knowledge.decide_recall)(row.owner, row, recall, actor="cora", reason="over")


async def topic_with(owner: ChatUser, words: str) -> Topic:
    return await Topic.objects.of(owner).select_related("owner").aget(summary__contains=words)


class TestNever:
    pytestmark = over_runs

    @pytest.mark.parametrize("strategy", STRATEGIES)
    async def test_no_strategy_sees_it_until_that_is_undone(self, clients: Clients, strategy: str) -> None:
        anna = await memory_of_three()
        topic = await topic_with(anna, "vLLM")
        made = await decide(topic, "never")
        run, events, document = await recalled(anna, clients, BOTH, strategy=strategy)
        [applied] = [event for event in events if isinstance(event, DecisionsApplied)]
        assert (applied.pinned, applied.never) == ((), (f"Topic:{topic.pk}",))
        shown = json.dumps([str(event) for event in events if event is not applied]) + json.dumps(document)
        assert not any(words in shown for words in ("gpu_memory_utilization", "our H100", f"Topic:{topic.pk}"))
        # The others are searched and shown as ever.
        [found] = [event for event in events if isinstance(event, CandidatesFound)]
        assert found.passages
        assert found.candidates
        lost = await sync_to_async(why_not)(run, topic=f"Topic:{topic.pk}")
        assert (lost.stage, lost.counterfactuals) == ("filtered", ())
        await sync_to_async(knowledge.undo)(anna, made, actor="cora")
        _run, _events, document = await recalled(anna, clients, BOTH, strategy=strategy)
        assert f"Topic:{topic.pk}" in [each["id"] for each in document["topics"]]

    async def test_neither_a_person_nor_a_fact_is_handed_over(self, clients: Clients) -> None:
        anna = await memory_of_three()
        his = {"owner": anna, "circle": Person.Circle.FAMILY}
        masha = await Person.objects.acreate(display_name="Masha", bio="has a birthday", **his)
        values = {"owner": anna, "category": "c", "importance": 90, "type": Fact.Type.IDENTITY}
        fact = await Fact.objects.acreate(content="lives in Riga", relation="r", created_at=timezone.now(), **values)
        _run, _events, before = await recalled(anna, clients, "A birthday cake for Masha?")
        for row in (masha, fact):
            await decide(row, "never")
        _run, events, after = await recalled(anna, clients, "A birthday cake for Masha?")
        for words in ("has a birthday", "lives in Riga"):
            assert (words in before["context"], words in after["context"]) == (True, False)
            assert not any(words in str(event) for event in events)

    async def test_no_fork_of_an_earlier_run_sees_it(self, clients: Clients) -> None:
        anna = await memory_of_three()
        topic = await topic_with(anna, "vLLM")
        values = {"owner": anna, "category": "c", "importance": 90, "type": Fact.Type.IDENTITY}
        fact = await Fact.objects.acreate(content="lives in Riga", relation="r", created_at=timezone.now(), **values)
        run, events, _document = await recalled(anna, clients, BOTH)
        assert all(words in str(events) for words in ("gpu_memory_utilization", "lives in Riga"))
        moment = timezone.now().isoformat()
        for row in (topic, fact):
            await decide(row, "never")
        for turn, changes in ((0, {}), (1, {}), (None, {"as_of": moment}), (1, {"parameters": {"max_topics": 1}})):
            fork = await sync_to_async(forks.fork)(run, turn=turn, changes=changes)
            await lifecycle.execute(fork.pk, clients)
            made = [event for event in await events_of(fork) if not isinstance(event, DecisionsApplied)]
            shown = str(made)
            assert any(isinstance(event, RunFinished) and not event.fallback for event in made)
            assert not any(words in shown for words in ("gpu_memory", f"Topic:{topic.pk}'", "lives in Riga")), changes
        with pytest.raises(ForkError, match="never recalled now"):
            await sync_to_async(forks.fork)(run, turn=2, changes={})


class TestPinned:
    pytestmark = over_runs

    @pytest.mark.parametrize("strategy", STRATEGIES)
    async def test_it_is_handed_over_whatever_the_query(self, clients: Clients, strategy: str) -> None:
        anna = await memory_of_three()
        topic = await topic_with(anna, "Knee")
        await decide(topic, "pinned")
        _run, _events, document = await recalled(
            anna, clients, strategy=strategy, parameters={"max_topics": 1} if (strategy in ("flash", "vector")) else {}
        )
        last = document["topics"][-1]
        assert (last["id"], last["pinned"], last["message_count"]) == (f"Topic:{topic.pk}", True, 2)
        assert "My meniscus hurts" in document["context"]
        _run, _events, document = await recalled(anna, clients, "My meniscus hurts after running", strategy=strategy)
        assert [each["id"] for each in document["topics"]].count(f"Topic:{topic.pk}") == 1

    async def test_a_filter_of_the_query_holds_for_it_too(self, clients: Clients) -> None:
        anna = await memory_of_three()
        await decide(await topic_with(anna, "Knee"), "pinned")
        _run, _events, document = await recalled(anna, clients, f"{QUERY} author:nobody")
        assert "meniscus" not in document["context"]

    async def test_a_fact_of_little_importance_is_part_of_the_profile(self) -> None:
        anna = await memory_of_three()
        values = {"owner": anna, "category": "c", "importance": 1, "type": Fact.Type.CONTEXT}
        fact = await Fact.objects.acreate(content="hates leeks", relation="r", created_at=timezone.now(), **values)
        assert "leeks" not in (await background_of(anna.pk)).profile
        await decide(fact, "pinned")
        assert "leeks" in (await background_of(anna.pk)).profile


@pytest.mark.django_db
class TestDecisions:
    def test_topics_that_replace_others_are_recalled_as_most_of_their_messages(self, anna: ChatUser) -> None:
        long, short = talk(anna, ("Tea", ["Which tea?", "Green.", "Why?", "It is fresh."]), ("Cake", ["Which cake?"]))
        knowledge.decide_recall(anna, long, "never", actor="cora")
        merge = {"kind": TopicEdit.Kind.MERGE, "actor": "cora"}
        edit = curation.swap(anna, curation.plan_merge(anna, [long.pk, short.pk]), **merge)
        [merged] = curation.put_in(edit)
        assert merged.recall == "never"
        with pytest.raises(Stale):
            knowledge.decide_recall(anna, long, "", actor="cora")
        curation.undo(anna, edit, actor="cora")
        assert {topic.summary: topic.recall for topic in Topic.objects.of(anna).live()} == {"Tea": "never", "Cake": ""}
        assert list(violations(anna)) == []

    def test_the_program_by_itself_merges_none_of_them(self, anna: ChatUser) -> None:
        tea, cake = talk(anna, ("Tea", ["Which tea?"]), ("Cake", ["Which cake?"]))
        knowledge.decide_recall(anna, tea, "pinned", actor="cora")
        change = curation.plan_merge(anna, [tea.pk, cake.pk])
        with pytest.raises(curation.ByHand):
            curation.swap(anna, change, kind=TopicEdit.Kind.MERGE, actor="merger", by_hand=False)

    def test_what_replaces_a_fact_takes_it_over(self, anna: ChatUser) -> None:
        values = {"relation": "r", "category": "c", "type": Fact.Type.STATUS, "importance": 9}
        made_at = {"owner": anna, "created_at": timezone.now()}
        first, second = [Fact.objects.create(content=words, **values, **made_at) for words in ("Riga", "Oslo")]
        knowledge.decide_recall(anna, first, "never", actor="cora")
        knowledge.supersede(anna, first, second, {}, actor="archivist")
        second.refresh_from_db()
        assert second.recall == "never"
        made = knowledge.replace(anna, second, {**values, "content": "Bergen"}, actor="archivist")
        assert Fact.objects.get(pk=knowledge.number_made(made)).recall == "never"

    def test_only_ten_topics_can_be_pinned(self, anna: ChatUser) -> None:
        *ten, last = talk(anna, *((f"Tea {n}", [f"Which tea {n}?"]) for n in range(11)))
        for topic in ten:
            knowledge.decide_recall(anna, topic, "pinned", actor="cora")
        with pytest.raises(CurationError, match="At most 10"):
            knowledge.decide_recall(anna, last, "pinned", actor="cora")
        knowledge.decide_recall(anna, ten[0], "", actor="cora")
        knowledge.decide_recall(anna, last, "pinned", actor="cora")

    def test_a_forged_change_deletes_no_topic(self, anna: ChatUser) -> None:
        [tea] = talk(anna, ("Tea", ["Which tea?"]))
        number = str(tea.pk)
        forged = KnowledgeEdit.objects.create(
            owner=anna, kind="edit", noun="topic", actor="?", before={number: None}, after={number: {"recall": ""}}
        )
        with pytest.raises(CurationError):
            knowledge.undo(anna, forged, actor="cora")
        forged.before = {number: {"summary": "Forged"}}
        forged.save()
        with pytest.raises(CurationError):
            knowledge.undo(anna, forged, actor="cora")
        assert Topic.objects.get(pk=tea.pk).summary == "Tea"

    def test_a_curator_decides_on_a_page_which_says_so(self, anna: ChatUser) -> None:
        [tea] = talk(anna, ("Tea", ["Which tea?"]))
        cora = signed_in(operator("cora", Role.CURATOR, anna))
        address = reverse("row_recall", args=[anna.pk, "topic", tea.pk])
        assert "Never recalled" in cora.get(address).content.decode()
        page = cora.post(address, {"recall": "never", "reason": "private"}, follow=True).content.decode()
        assert "never recalled" in page
        assert "private" in cora.get(reverse("history", args=[anna.pk])).content.decode()
        again = cora.post(address, {"recall": "never"})
        assert (again.status_code, "Nothing would change." in again.content.decode()) == (422, True)
        cora.post(reverse("undo_change", args=[anna.pk, KnowledgeEdit.objects.get().pk]))
        assert Topic.objects.get(pk=tea.pk).recall == ""


@pytest.mark.django_db(transaction=True)
def test_a_program_decides_and_takes_it_back(anna: ChatUser, boris: ChatUser) -> None:
    [tea], [boat] = talk(anna, ("Tea", ["Which tea?"])), talk(boris, ("Boats", ["Which boat?"]))
    program = Program(token_for(anna, scopes=("curate",)))
    body = {"user": "anna", "id": f"Topic:{tea.pk}", "recall": "pinned", "reason": "plan"}
    made = program.post("/v1/decisions", body).json()
    assert (made["id"], made["recall"]) == (f"Topic:{tea.pk}", "pinned")
    assert program.ask("get", "/v1/users/anna/decisions").json() == {
        "decisions": [{"id": f"Topic:{tea.pk}", "recall": "pinned"}]
    }
    assert error_of(program.post("/v1/decisions", body))[0] == 422
    assert error_of(program.post("/v1/decisions", {**body, "id": f"Topic:{boat.pk}"}))[0] == 404
    assert program.post(f"/v1/decisions/{made['change']}/undo", {}).json()["recall"] == "usual"
    assert program.ask("get", "/v1/users/anna/decisions").json() == {"decisions": []}
