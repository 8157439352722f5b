"""People and artifacts as candidates: found by words and by meaning, only in their owner's memory, files of the
conversation first."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from memoryapp.engine.candidates import ItemCandidate
from memoryapp.intake.messages import add_messages
from memoryapp.models import Artifact, CardVector, ChatUser, Message, Person
from memoryapp.search.vectors import embed_pending
from tests.conftest import record, talk
from tests.search.test_retrieval import Synonyms, search

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def memory(anna: ChatUser) -> ChatUser:
    """Four people and three files among messages about other subjects."""
    talk(anna, ("Tea", ["green tea or black", "green"]), ("Cats", ["cats sleep a lot", "they do"]))
    people: list[tuple[str, dict[str, Any]]] = [
        ("Pete Petrov", {"aliases": ["Petya"], "username": "petrov", "circle": "Work_Inner", "bio": "joint surgeon"}),
        ("Lena", {"circle": "Friends", "bio": "runs marathons"}),
        ("Mama", {"circle": "Family", "bio": "grows tomatoes"}),
        ("Gela", {"bio": "drives to Kazbegi"}),
    ]
    for name, fields in people:
        Person.objects.create(owner=anna, display_name=name, mention_count=3, **fields)
    file(anna, "levy.pdf", summary="What the office wants.")
    file(anna, "sockets.png", file_type="image", summary="", keywords=["kitchen"])
    file(anna, "tickets.pdf", summary="Flight on April 30.", rag_hints=["When do we fly?"])
    embed(anna)
    return anna


def file(owner: ChatUser, name: str, **fields: Any) -> Artifact:
    values = {"file_type": "pdf", "sha256": name, "created_at": timezone.now(), "state": "ready", **fields}
    return Artifact.objects.create(owner=owner, name=name, **values)


def embed(owner: ChatUser) -> None:
    async_to_sync(embed_pending)(Synonyms(), owner)


def names(found: Sequence[ItemCandidate]) -> list[str]:
    """Returns what the model is shown."""
    return [item.name for item in found if item.shown]


def test_a_person_is_found_by_name_and_stands_as_the_model_reads_it(memory: ChatUser) -> None:
    best = search(memory, "what of petrov?").people[0]
    assert (best.name, best.rank, best.shown) == ("Pete Petrov", 1, True)
    assert best.terms.keys() == {"petrov"}
    assert best.line.startswith(f"[{best.id}] ({best.score:.2f}) Pete Petrov (@petrov) (aka Petya) [Work_Inner] | 3 ")
    assert best.line.endswith("joint surgeon")


def test_a_person_of_the_inner_circle_is_found_like_all_others(memory: ChatUser) -> None:
    assert names(search(memory, "tomatoes").people)[0] == "Mama"


def test_meaning_finds_what_words_miss_and_words_find_what_has_no_vector_yet(memory: ChatUser) -> None:
    nearest = search(memory, "knee").people[0]
    assert (nearest.name, nearest.vector_rank, nearest.bm25) == ("Pete Petrov", 1, 0)
    assert names(search(memory, "knee", vector=False).people) == []
    CardVector.objects.all().delete()
    found = search(memory, "marathons")
    assert names(found.people) == ["Lena"]
    assert {person.vector_rank for person in found.people} == {0}


def test_files_are_found_by_name_summary_and_the_questions_they_answer(memory: ChatUser) -> None:
    assert names(search(memory, "tickets.pdf").artifacts)[0] == "tickets.pdf"
    assert names(search(memory, "when do we fly").artifacts)[0] == "tickets.pdf"
    assert names(search(memory, "tax").artifacts)[0] == "levy.pdf"
    socket = search(memory, "kitchen").artifacts[0]
    assert socket.line == f'[{socket.id}] ({socket.score:.2f}) image: "sockets.png" | kitchen | (not analysed yet)'


def test_what_is_neither_near_nor_shares_a_word_is_ranked_but_never_shown(memory: ChatUser) -> None:
    found = search(memory, "marathons", vector=False)
    assert names(found.people) == ["Lena"]
    assert len(found.people) == 4
    assert [person.rank for person in found.people] == [1, 2, 3, 4]
    assert found.cards == 7


def test_only_so_many_are_shown_and_ranked(memory: ChatUser) -> None:
    found = search(memory, "petrov lena mama gela pdf", people=2, artifacts=0, ranked=3)
    assert len(names(found.people)) == 2
    assert [len(found.people), len(found.artifacts)] == [3, 3]
    assert names(found.artifacts) == []


def test_one_lonely_person_has_a_score_that_tells_a_hit_from_a_miss(anna: ChatUser) -> None:
    talk(anna, *((f"Day {n}", [f"tea number {n}", "yes"]) for n in range(12)))
    Person.objects.create(owner=anna, display_name="Rustam", bio="lays tiles")
    embed(anna)
    hit, miss = search(anna, "who lays tiles?").people[0], search(anna, "tea number 3").people[0]
    assert hit.score > 0.4 > miss.score


def test_topics_are_scored_the_same_whoever_is_known(memory: ChatUser) -> None:
    before = search(memory, "green tea").candidates
    Person.objects.filter(owner=memory).delete()
    Artifact.objects.filter(owner=memory).delete()
    assert search(memory, "green tea").candidates == before


def test_nobody_elses_people_and_files_are_found(memory: ChatUser, boris: ChatUser) -> None:
    Person.objects.create(owner=boris, display_name="Petrov of Boris")
    brought(boris, "tickets-of-boris.pdf")
    embed(boris)
    assert names(search(boris, "petrov tickets").people) == ["Petrov of Boris"]
    assert names(search(boris, "petrov tickets").artifacts) == ["tickets-of-boris.pdf"]
    hers = search(memory, "petrov tickets")
    assert "Petrov of Boris" not in [person.name for person in hers.people]
    assert "tickets-of-boris.pdf" not in [artifact.name for artifact in hers.artifacts]


def brought(owner: ChatUser, name: str, *, hours: float = 0, **fields: Any) -> Artifact:
    """A file that came with a message of the running conversation, some hours ago."""
    number = 500 + Message.objects.count()
    at = timezone.now() - timedelta(hours=hours, minutes=1)
    add_messages(owner, [record(number, "look at this", at=at)])
    message = Message.objects.get(owner=owner, external_id=f"m{number}")
    return file(owner, name, message=message, **{"state": "pending", **fields})


def test_files_of_the_running_conversation_come_first_whatever_is_asked(memory: ChatUser) -> None:
    brought(memory, "older.png", hours=2)
    newest = brought(memory, "newest.png", hours=1)
    brought(memory, "broken.png", state="failed")
    brought(memory, "last-week.png", hours=25)
    found = search(memory, "tickets").artifacts
    assert names(found)[:3] == ["newest.png", "older.png", "tickets.pdf"]
    assert [(item.in_session, item.rank, item.score) for item in found[:2]] == [(True, 1, 0.0), (True, 2, 0.0)]
    assert f"[Artifact:{newest.pk}] (in this conversation)" in found[0].line
    assert [item.rank for item in found] == list(range(1, len(found) + 1))


def test_a_file_of_the_conversation_that_is_found_as_well_stands_once(memory: ChatUser) -> None:
    brought(memory, "xray.png", summary="the joint", state="ready")
    embed(memory)
    found = [item.name for item in search(memory, "xray joint").artifacts]
    assert found.count("xray.png") == 1
    assert found[0] == "xray.png"


def test_at_most_five_files_of_the_conversation_are_taken_and_none_of_an_archived_one(memory: ChatUser) -> None:
    for number in range(7):
        brought(memory, f"photo-{number}.png", hours=number / 10)
    found = [item.name for item in search(memory, "tickets").artifacts if item.in_session]
    assert found == [f"photo-{number}.png" for number in range(5)]
    Message.objects.filter(owner=memory, text="look at this").update(is_withdrawn=True)
    assert not any(item.in_session for item in search(memory, "tickets").artifacts)


@pytest.mark.parametrize("query", ["", "?!", "' | !& <->", "%s", "x" * 5_000])
def test_no_query_breaks_the_search(memory: ChatUser, query: str) -> None:
    assert search(memory, query).cards == 7
    assert search(memory, query, vector=False).cards == 7


def test_lists_that_are_none_break_nothing(anna: ChatUser) -> None:
    Person.objects.create(owner=anna, display_name="Petrov", aliases={"a": 1})
    file(anna, "petrov.pdf", keywords="text", entities=[1, None], rag_hints={})
    embed(anna)
    found = search(anna, "petrov")
    assert (names(found.people), names(found.artifacts)) == (["Petrov"], ["petrov.pdf"])
