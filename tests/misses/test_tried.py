"""Every remedy is tried before it is offered: its effect on this run and on past ones is said, and nothing stays."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from memoryapp.curation import knowledge
from memoryapp.engine.outline import Outline
from memoryapp.insight.misses import misses, remedies
from memoryapp.models import ChatUser, Fact, ImportBatch, KnowledgeEdit, Message, Miss, Passage, Person, Topic
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import followers
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.misses.forgetful import DENTIST, ended, forgetful, missed

pytestmark = pytest.mark.django_db(transaction=True)

PLUMBER = "The plumber comes on Friday to mend the boiler"


def offered(miss: Miss) -> dict[str, remedies.Offer]:
    why = misses.explain(miss)
    return {each.remedy: each for each in remedies.offers(miss, why, asks_model=True)} if why else {}


def written() -> tuple[Any, ...]:
    kinds = (Message, Passage, ImportBatch, Fact, KnowledgeEdit)
    return tuple(kind._default_manager.count() for kind in kinds)


def test_what_is_tried_leaves_nothing_behind() -> None:
    owner = forgetful()
    lacking, unchosen = missed(owner, "When does the plumber come?", PLUMBER), missed(owner)
    before = written()
    assert {"message", "fact"} <= offered(lacking).keys()
    assert "pin" in offered(unchosen)
    assert written() == before
    owner.refresh_from_db()
    assert not Topic.objects.exclude(recall="").exists()
    assert (lacking.lost, lacking.evidence) == ("", [])


def test_a_message_says_at_which_rank_this_run_would_find_it_and_what_past_runs_lose() -> None:
    owner = forgetful()
    cake = missed(owner, "Which cake for a birthday of ten?", "A honey cake keeps for two days")
    offer = offered(missed(owner, "When does the plumber come to mend the boiler?", PLUMBER))["message"]
    assert "#1 of the candidates" in offer.result
    assert offer.effect
    assert (offer.effect.affected, offer.effect.better, offer.effect.worse) == (2, 1, 0)
    assert {row.run_id for row in offer.effect.rows if row.verdict == "same"} == {cake.run_id}


def test_a_message_that_the_filters_of_the_run_would_hide_is_not_offered() -> None:
    miss = missed(forgetful(), "When does the plumber come? until:2020-01-01", PLUMBER)
    assert {"message", "fact"} & offered(miss).keys() == {"fact"}


def test_a_pin_says_what_each_context_gets_and_whom_it_helps() -> None:
    owner = forgetful()
    first, miss = missed(owner), missed(owner, "What is on this week?", DENTIST)
    misses.explain(first)
    offer = offered(miss)["pin"]
    assert "characters more" in offer.result
    assert offer.effect
    assert (offer.effect.better, offer.effect.worse) == (2, 0)


def test_a_pin_of_a_long_topic_that_would_hand_over_something_else_is_not_offered() -> None:
    owner = ChatUser.objects.create(name="anna")
    long = [f"On the appointments of this week, part {n}: " + "words of no use " * 60 for n in range(40)]
    talk(owner, ("Everything", [*long, "Grey cat"]), ("Bank", ["The bank"]))
    async_to_sync(embed_pending)(offline_embedder())
    miss = missed(owner, "Which appointments do I have this week?", "Grey cat")
    assert "pin" not in offered(miss)


def test_a_fact_that_there_is_no_room_for_is_not_offered() -> None:
    owner = forgetful()
    miss = missed(owner, "When does the plumber come?", PLUMBER)
    assert "characters more" in offered(miss)["fact"].result
    for n in range(50):
        told = {"relation": "user", "category": "other", "content": f"fact {n}", "type": "context", "importance": 50}
        knowledge.create(owner, KnowledgeEdit.Noun.FACT, told, actor="ada", recall="pinned")
    assert "fact" not in offered(miss)


def test_what_is_never_recalled_says_at_which_rank_it_would_be_found() -> None:
    owner = forgetful()
    topic = Topic.objects.get(summary__startswith="Winter")
    knowledge.decide_recall(owner, topic, "never", actor="ada")
    miss = missed(owner, "When does the dentist see me?", DENTIST)
    offer = offered(miss)["usual"]
    assert "It would be #1" in offer.result
    remedies.apply(miss, "usual", offer.values, actor="ada")
    ended(miss.again)
    assert misses.settle(miss) is True


def test_a_run_that_is_older_than_the_latest_is_still_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryapp.curation.effect.MOST_BY_HAND", 1)
    owner = forgetful()
    miss = missed(owner, "When does the plumber come?", PLUMBER)
    missed(owner, "Which cake for a birthday of ten?")
    assert "message" in offered(miss)


# Another person.


@pytest.fixture
def owner() -> ChatUser:
    owner = forgetful()
    Person.objects.create(owner=owner, display_name="Alexandra Orlova", aliases=["Sasha"], bio="A colleague.")
    Person.objects.create(owner=owner, display_name="Alexander Petrov", bio="Brother, plays the cello.")
    return owner


def person(name: str) -> Person:
    return Person.objects.get(display_name=name)


def test_a_name_moves_to_the_right_person_by_one_button_and_back(owner: ChatUser, as_admin: Client) -> None:
    right, other = person("Alexander Petrov"), person("Alexandra Orlova")
    miss = missed(owner, "What does Sasha play?", f"Person:{right.pk}")
    assert miss.run
    offer = offered(miss)["person"]
    assert offer.text is None
    assert "Sasha" in offer.does
    assert "#1 of the people" in offer.result
    remedies.apply(miss, "person", offer.values, actor="ada")
    assert (person("Alexander Petrov").aliases, person("Alexandra Orlova").aliases) == (["Sasha"], [])
    ended(miss.again)
    assert misses.settle(miss) is True
    history = as_admin.get(f"/memory/{owner.pk}/history/").content.decode()
    assert "Alexandra Orlova" in history
    misses.undo(miss, actor="ada")
    assert (person("Alexander Petrov").aliases, person("Alexandra Orlova").aliases) == ([], ["Sasha"])
    assert other.pk != right.pk


def test_a_namesake_is_told_apart_by_a_name_that_is_proposed(owner: ChatUser, as_admin: Client) -> None:
    Person.objects.update(display_name="Sasha", aliases=[])
    right = Person.objects.get(bio__startswith="Brother")
    miss = missed(owner, "When does Sasha with the cello play?", f"Person:{right.pk}")
    offer = offered(miss)["person"]
    assert offer.text
    assert offer.text.startswith("Sasha (")
    remedies.apply(miss, "person", {**offer.values, "text": "Sasha Petrov"}, actor="ada")
    right.refresh_from_db()
    assert (right.display_name, right.aliases) == ("Sasha Petrov", ["Sasha"])
    misses.undo(miss, actor="ada")
    right.refresh_from_db()
    assert (right.display_name, right.aliases) == ("Sasha", [])


def test_a_person_whom_the_question_does_not_name_gets_other_names_in_place(owner: ChatUser, as_admin: Client) -> None:
    right = person("Alexander Petrov")
    Person.objects.filter(display_name="Alexandra Orlova").delete()
    miss = missed(owner, "What does Shurik want?", f"Person:{right.pk}")
    page = as_admin.get(f"/memory/{owner.pk}/misses/{miss.pk}/remedies/").content.decode()
    assert "Correct the person" in page
    assert '<textarea class="field" name="text"' in page
    remedies.apply(miss, "person", {"to": f"Person:{right.pk}", "text": "Shurik, Sanya"}, actor="ada")
    assert person("Alexander Petrov").aliases == ["Shurik", "Sanya"]
    ended(miss.again)
    assert miss.again_id
    found = Outline.of([each.event for each in followers.stored(miss.again_id)]).found
    assert found
    assert [each.id for each in found.people if each.shown] == [f"Person:{right.pk}"]


@pytest.mark.parametrize(
    "values",
    [{}, {"to": "Topic:1"}, {"to": "Person:999999", "text": "x"}, {"to": 7}, {"to": ["Person:1"], "from": "Person:1"}],
)
def test_no_other_row_is_corrected(owner: ChatUser, values: dict[str, Any]) -> None:
    miss = missed(owner)
    misses.explain(miss)
    with pytest.raises(misses.MissError):
        remedies.apply(miss, "person", {"text": "", **values}, actor="ada")
    assert not KnowledgeEdit.objects.exists()
