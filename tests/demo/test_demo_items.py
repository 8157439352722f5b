"""The quality of people and files as candidates: questions about the demo memory, through the embedded models.

The person or file that a question is about must be the first of its kind. Questions about none of them show how far
below such a hit all others are.
"""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from pgvector import HalfVector

from memoryapp.models import ChatUser
from memoryapp.runs.clients import open_clients
from memoryapp.search import retrieval
from memoryapp.search.retrieval import SearchResult
from memoryapp.search.similarity import Question
from memoryapp.upkeep import demo

PEOPLE = {
    "что ты знаешь о Петрове?": "Пётр Петров",
    "Who is Petrov?": "Пётр Петров",
    "кто такой Игорь?": "Игорь Мельник",
    "напомни про Саркисяна": "Левон Арамович Саркисян",
    "кто мой ортопед?": "Левон Арамович Саркисян",
    "расскажи про моего мужа": "Миша Ветров",
    "как зовут маму": "Ольга Сергеевна Гущина",
    "что подарить брату": "Костя Гущин",
    "подруга, которая бегает": "Лена Соколова",
    "позвони прорабу": "Рустам",
    "мой учитель японского": "Юко Танабэ",
    "у кого аллергия на орехи": "Марина Климова",
    "recruiter who offered me a contract": "Priya Raman",
}
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
def test_questions_find_whom_they_are_about_first_and_the_file_of_the_running_conversation_always() -> None:
    """Both checks share one memory, whose vectors take longer to make than all its questions to answer."""
    assert demo.load()
    anna = ChatUser.objects.get(name="anna").pk
    found = async_to_sync(searches)(anna, [*PEOPLE, *FILES, *ABOUT_NEITHER, ABOUT_NOTHING])
    assert_first_of_their_kind(found)
    running = found[ABOUT_NOTHING].artifacts
    assert [file.name for file in running if file.in_session] == ["nordlys-swap-clause.pdf"]
    assert running[0].in_session


def assert_first_of_their_kind(found: dict[str, SearchResult]) -> None:
    people = {query: found[query].people[0] for query in PEOPLE}
    files = {query: next(file for file in found[query].artifacts if not file.in_session) for query in FILES}
    assert {query: best.name for query, best in (people | files).items()} == PEOPLE | FILES
    assert all(best.shown for best in (people | files).values())
    hits = [best.score for best in (people | files).values()]
    others = [item.score for query in ABOUT_NEITHER for item in (*found[query].people, *found[query].artifacts)]
    assert min(hits) > max(others)
