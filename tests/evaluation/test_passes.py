"""Evaluations that a page starts: asked in the worker, with progress, stopped, broken off and carried on."""

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from memoryapp import erasure
from memoryapp.erasure import Target
from memoryapp.insight.evaluation import judgements, passes
from memoryapp.insight.evaluation.questions import QuestionsError
from memoryapp.models import ChatUser, Evaluation, GoldenQuestion, Grade, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import tasks
from tests.explain.planted import Memory, seeded

pytestmark = pytest.mark.django_db(transaction=True)


def questions(memory: Memory) -> list[GoldenQuestion]:
    """A question for each of three topics, and one that nothing answers."""
    made = [
        judgements.save(
            memory.owner,
            "garden",
            f"what about the {subject}",
            list(topic.topicmessage_set.values_list("message", flat=True)),
            "ada",
        )
        for subject, topic in zip(memory.subjects, memory.garden[:3], strict=False)
    ]
    return [*made, judgements.save(memory.owner, "garden", "what about the zither", [], "ada")]


@pytest.fixture
async def asked() -> list[GoldenQuestion]:
    memory = await sync_to_async(seeded)(3)
    await embed_pending(offline_embedder())
    return await sync_to_async(questions)(memory)


async def begun(asked: list[GoldenQuestion]) -> Evaluation:
    return await sync_to_async(passes.begin)(asked, ["vector", "filter"], source="garden", by="ada")


async def carried_on(first: Evaluation) -> None:
    async with open_clients() as clients:
        await passes.carry_on(first, clients)
    await first.arefresh_from_db()


async def test_every_question_is_asked_by_every_strategy_and_each_has_a_report(asked: list[GoldenQuestion]) -> None:
    first = await begun(asked)
    assert [row async for row in passes.waiting()] == [first]
    await carried_on(first)
    (other,) = [row async for row in first.beside.all()]
    assert (first.state, first.done) == ("finished", 4)
    assert [row.report["n"] for row in (first, other)] == [4, 4]
    assert first.report["candidates"]["recall@5"] == 1
    assert await Run.objects.acount() == 8
    assert not await passes.waiting().aexists()


async def test_what_a_killed_worker_had_asked_is_not_asked_again(asked: list[GoldenQuestion]) -> None:
    first = await begun(asked)
    labelled = await sync_to_async(passes.labelled)([asked[0].pk])
    async with open_clients() as clients:
        await passes.ask(labelled[0], clients, evaluation=first)
    lost = await Run.objects.acreate(
        owner=asked[1].owner,
        evaluation=first,
        query=asked[1].question,
        strategy="vector",
        state="finished",
        fallback="abandoned",
    )
    await Evaluation.objects.filter(pk=first.pk).aupdate(state="running")
    await sync_to_async(tasks.evaluate_asked)()
    await first.arefresh_from_db()
    assert (first.state, first.report["n"]) == ("finished", 4)
    asked_first = Run.objects.filter(evaluation=first).exclude(pk=lost.pk)
    assert await asked_first.acount() == 4


async def test_a_stopped_one_reports_on_what_was_asked_and_another_can_start(asked: list[GoldenQuestion]) -> None:
    first = await begun(asked)
    assert await sync_to_async(passes.stop)(first)
    await carried_on(first)
    assert (first.state, first.report) == ("stopped", {})
    assert await Run.objects.acount() == 0
    assert not await sync_to_async(passes.stop)(first)
    again = await begun(asked)
    await carried_on(again)
    assert again.state == "finished"


async def test_a_question_whose_evidence_was_erased_is_left_out(asked: list[GoldenQuestion]) -> None:
    await GoldenQuestion.objects.filter(pk=asked[0].pk).aupdate(evidence=[10**9])
    await GoldenQuestion.objects.filter(pk=asked[1].pk).aupdate(question="[erased]")
    first = await begun(asked)
    await carried_on(first)
    assert first.report["n"] == 2


async def test_an_erased_message_takes_its_grades_and_a_golden_question_loses_its_words() -> None:
    memory = await sync_to_async(seeded)(3)

    def erased() -> None:
        message = memory.garden[0].topicmessage_set.order_by("message")[0].message
        run = Run.objects.create(owner=memory.owner, query=message.text, strategy="vector", state="finished")
        Grade.objects.create(owner=memory.owner, run=run, message=message, value=2)
        row = judgements.save(memory.owner, "garden", message.text, [message.pk], "ada")
        erasure.finish(erasure.begin(Target(memory.owner.pk, (message.pk,)), "ada"))
        row.refresh_from_db()
        assert not Grade.objects.exists()
        assert memory.subjects[0] not in row.question
        assert passes.labelled([row.pk]) == []

    await sync_to_async(erased)()


async def test_nothing_and_too_much_are_refused(asked: list[GoldenQuestion]) -> None:
    for wrong in ([], ["vector"] * 0), (asked, []), (asked * 300, ["vector"]):
        with pytest.raises(QuestionsError):
            await sync_to_async(passes.begin)(wrong[0], wrong[1], source="x", by="ada")
    assert not await Evaluation.objects.aexists()


def test_the_page_shows_the_cost_first_starts_shows_progress_and_stops(
    as_debugger: Client, as_viewer: Client, as_stranger: Client, anna: ChatUser
) -> None:
    judgements.save(anna, "mine", "which cake?", [], "ada")
    Run.objects.create(owner=anna, query="?", strategy="vector", state="finished", seconds=2, cost_usd=0.5)
    sent = {"set": "mine", "strategies": ["filter", "vector"], "limit": "10"}
    forecast = as_debugger.get("/evaluations/new/", sent, headers={"HX-Request": "true"}).content.decode()
    assert all(words in forecast for words in ("2 runs", "$0.5000", "filter"))
    assert as_viewer.post("/evaluations/new/", sent).status_code == 403
    assert as_debugger.post("/evaluations/new/", {**sent, "set": "no such"}).status_code == 422
    assert not Evaluation.objects.exists()
    answer = as_debugger.post("/evaluations/new/", sent)
    first = Evaluation.objects.get(reference=None)
    assert (answer.status_code, first.strategy) == (302, "vector")
    page = as_debugger.get(f"/evaluations/{first.pk}/")
    assert "every 2s" in page.content.decode()
    assert as_stranger.get(f"/evaluations/{first.pk}/").status_code == 404
    assert as_stranger.post(f"/evaluations/{first.pk}/stop/").status_code in (403, 404)
    assert as_debugger.post(f"/evaluations/{first.pk}/stop/").status_code == 302
    assert "every 2s" not in as_debugger.get(f"/evaluations/{first.pk}/").content.decode()
