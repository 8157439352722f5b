"""The quality of search over the demo memory, through the embedded models, and the demo's recorded runs."""

from collections.abc import Sequence

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from pgvector import HalfVector

from memoryapp.engine.events import ModelReplied, RunFinished
from memoryapp.insight.evaluation.passes import evaluate
from memoryapp.insight.evaluation.questions import LabelledQuestion, read_questions
from memoryapp.insight.evaluation.scores import QuestionScore, report
from memoryapp.models import ChatUser, Evaluation, Operator, Run
from memoryapp.runs import followers
from memoryapp.runs.clients import open_clients
from memoryapp.search import retrieval
from memoryapp.search.retrieval import SearchResult
from memoryapp.search.similarity import Question
from memoryapp.upkeep import demo
from memoryapp.upkeep.demo import recorded
from tests.conftest import signed_in
from tests.examples import table
from tests.support.browsing import get

CUTS = (5, 10)
# Quality is measured here, not the speed of the machine.
PATIENT = {"seconds": 300, "turn_seconds": 300}


async def scores(questions: Sequence[LabelledQuestion], row: Evaluation) -> list[QuestionScore]:
    async with open_clients() as clients:
        found = evaluate(questions, clients, evaluation=row, parameters=PATIENT)
        return [score async for score in found]


def figures(strategy: str) -> dict[str, float]:
    questions = read_questions(demo.QUESTIONS).asked
    row = Evaluation.objects.create(source=demo.QUESTIONS.name, strategy=strategy)
    document = report(async_to_sync(scores)(questions, row), strategy=strategy, cuts=CUTS)
    return {**document["candidates"], **document["selection"]}


def assert_golden_questions_are_answered() -> None:
    """As well as they were, and better than by vectors alone."""
    flash, vector = figures("flash"), figures("vector")
    floors = {"recall@5": 0.81, "recall@10": 0.86, "mrr": 0.74, "f1": 0.63}
    assert {name: flash[name] for name, floor in floors.items() if flash[name] < floor} == {}
    better = ("recall@5", "mrr", "f1")
    assert {name: (flash[name], vector[name]) for name in better if flash[name] <= vector[name]} == {}


# The quality of people and files as candidates: questions about the demo memory, through the embedded models.


PEOPLE = table("demo_people")
FILES = {
    "что показало МРТ колена": "mrt-pravoe-koleno.pdf",
    "what was in the MRI report": "mrt-pravoe-koleno.pdf",
    "где упражнения физиотерапевта": "uprazhneniya-koleno.png",
    "во сколько вылет в Тбилиси": "bilety-tbilisi.pdf",
    "справка о лечении для вычета": "spravka-lechenie-2025.pdf",
    "сколько розеток на кухне": "shema-rozetok.png",
    "покажи pismo-fabrika-12.pdf": "pismo-fabrika-12.pdf",
    "голосовое Петрова про SLA": "petrov-golosovoe.ogg",
    "slides of my InfraNight talk": "infranight-outline.pdf",
}
ABOUT_NOTHING = "что мне прислали?"
ABOUT_NEITHER = ("как настроить MinIO", "What expired when the gateway refused all clients?", "напиши стихотворение")


async def searches(owner: int, queries: list[str]) -> dict[str, SearchResult]:
    async with open_clients() as clients, clients.pool.connection() as connection:
        vectors = await clients.embedder.embed(queries)
        profile = clients.embedder.profile
        return {
            query: await retrieval.search(
                connection,
                Question(owner, query, HalfVector(vector), clients.profile_id, profile.dimensions),
                threshold=profile.threshold,
            )
            for query, vector in zip(queries, vectors, strict=True)
        }


@pytest.mark.django_db(transaction=True)
def test_questions_find_whom_they_are_about_first_the_file_of_the_running_conversation_and_golden_topics() -> None:
    """All checks share one memory, whose vectors take longer to make than all its questions to answer."""
    assert demo.load()
    anna = ChatUser.objects.get(name="anna").pk
    found = async_to_sync(searches)(anna, [*PEOPLE, *FILES, *ABOUT_NEITHER, ABOUT_NOTHING])
    assert_first_of_their_kind(found)
    running = found[ABOUT_NOTHING].artifacts
    assert [file.name for file in running if file.in_session] == ["nordlys-swap-clause.pdf"]
    assert running[0].in_session
    assert_golden_questions_are_answered()


def assert_first_of_their_kind(found: dict[str, SearchResult]) -> None:
    people = {query: found[query].people[0] for query in PEOPLE}
    files = {query: next(file for file in found[query].artifacts if not file.in_session) for query in FILES}
    assert {query: best.name for query, best in (people | files).items()} == PEOPLE | FILES
    assert all(best.shown for best in (people | files).values())
    hits = [best.score for best in (people | files).values()]
    others = [item.score for query in ABOUT_NEITHER for item in (*found[query].people, *found[query].artifacts)]
    assert min(hits) > max(others)


# The recorded runs of the demo: one that chose, one that fell back, one that missed, at their recorded speed.


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
def test_each_memory_has_a_good_run_a_fallback_and_a_miss_that_replay() -> None:
    assert demo.load()
    assert recorded.record_runs() == 6
    for name in ("ada", "anna"):
        owner = ChatUser.objects.get(name=name)
        ends = {(run.fallback, bool(run.selected_count)) for run in Run.objects.of(owner)}
        assert ends == {("", True), ("", False), ("timeout", True)}
        good = Run.objects.of(owner).get(fallback="", selected_count__gt=0)
        events = [item.event for item in followers.stored(good.pk)]
        replies = [event for event in events if isinstance(event, ModelReplied)]
        assert [reply.model for reply in replies] == [recorded.MODEL] * 2
        assert min(reply.seconds for reply in replies) > 1
        assert good.seconds > sum(reply.seconds for reply in replies)
        [finished] = [event for event in events if isinstance(event, RunFinished)]
        statuses = {piece.status for chosen in finished.selected for piece in chosen.excerpt}
        assert statuses == {"exact"}, "every quotation is in a message, word for word"
        times = [item.at for item in followers.stored(good.pk)]
        assert times == sorted(times)
        assert (times[-1] - times[0]).total_seconds() > 4
    client = signed_in(Operator.objects.get())
    page = get(client, "/")
    assert "Ask the memory of Ada Marsh" in page
    assert "How did we get the nightly job back on time?" in page
    assert "dock_id = 0" in page, "the run plays"
    russian = client.get("/", headers={"accept-language": "ru"}).content.decode()
    assert "Спросить память «Анна Ветрова»" in russian or "Анна Ветрова" in russian


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
def test_the_overview_of_a_memory_without_runs_still_asks(anna: ChatUser, as_admin: Client, as_viewer: Client) -> None:
    page = get(as_admin, "/")
    assert f'action="/memory/{anna.pk}/ask/"' in page
    assert 'href="/memory/new/"' in page
    assert "begin-question" in get(as_viewer, "/")
    assert 'href="/memory/new/"' not in get(as_viewer, "/")
