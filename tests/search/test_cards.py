"""Cards have the content of their rows, are renewed when those change, and are found in any case and spelling."""

from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memoryapp.models import Artifact, Card, CardVector, ChatUser, EmbeddingProfile, Person
from memoryapp.search import items

pytestmark = pytest.mark.django_db


def person(owner: ChatUser, name: str = "Пётр Петров", **fields: Any) -> Person:
    return Person.objects.create(owner=owner, display_name=name, **fields)


def artifact(owner: ChatUser, name: str = "api-docs.pdf", **fields: Any) -> Artifact:
    values = {"file_type": "pdf", "sha256": name, "created_at": timezone.now(), **fields}
    return Artifact.objects.create(owner=owner, name=name, **values)


def found_by(word: str) -> bool:
    """Whether the only card contains the word, as PostgreSQL stems it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT terms @@ plainto_tsquery('russian', %s) FROM memoryapp_card", [word])
        return bool(cursor.fetchone()[0])


def with_vector(card: Card) -> CardVector:
    profile, _ = EmbeddingProfile.objects.get_or_create(provider="t", model="t", dimensions=2, threshold=0.1)
    return CardVector.objects.create(owner=card.owner, card=card, profile=profile, dimensions=2, vector=[1, 0])


def test_everybody_and_everything_gets_one_card_that_tells_all_about_it(anna: ChatUser) -> None:
    petrov = person(anna, aliases=["Петя", "Pete"], username="petrov", circle="Work_Inner", bio="Plays the guitar.")
    docs = artifact(
        anna, summary="How to call us.", keywords=["rest"], entities=["OAuth2"], rag_hints=["Which limits?"]
    )
    assert items.refresh() == 2
    assert items.refresh() == 0
    text = Card.objects.get(person=petrov).text
    assert all(word in text for word in ("Пётр Петров", "Петя", "Pete", "@petrov", "colleagues", "guitar"))
    text = Card.objects.get(artifact=docs).text
    assert all(word in text for word in ("pdf", "api-docs.pdf", "How to call us.", "rest", "OAuth2", "Which limits?"))


@pytest.mark.parametrize("word", ["Петров", "Петрова", "Петрове", "Петровым", "Рустама", "рустам", "Pete"])
def test_a_name_is_found_in_every_case(anna: ChatUser, word: str) -> None:
    person(anna, "Петров Рустам", aliases=["Pete"])
    items.refresh()
    assert found_by(word)


@pytest.mark.parametrize("word", ["api-docs.pdf", "docs", "api"])
def test_a_file_is_found_by_its_name_and_by_a_piece_of_it(anna: ChatUser, word: str) -> None:
    artifact(anna)
    items.refresh()
    assert found_by(word)


def test_a_change_renews_the_card_and_drops_its_vector(anna: ChatUser) -> None:
    petrov = person(anna, bio="Plays the guitar.")
    items.refresh()
    with_vector(Card.objects.get())
    petrov.bio = "Plays the drums."
    petrov.save()
    assert items.refresh() == 1
    assert found_by("drums")
    assert not found_by("guitar")
    assert not CardVector.objects.exists()
    assert items.refresh() == 0


def test_a_change_that_the_card_does_not_tell_keeps_its_vector(anna: ChatUser) -> None:
    petrov = person(anna)
    items.refresh()
    with_vector(Card.objects.get())
    petrov.mention_count = 5
    petrov.save()
    assert items.refresh() == 1
    assert CardVector.objects.count() == 1
    assert items.refresh() == 0


def test_a_card_goes_with_its_row(anna: ChatUser) -> None:
    petrov, docs = person(anna), artifact(anna)
    items.refresh()
    for card in Card.objects.all():
        with_vector(card)
    petrov.delete()
    docs.delete()
    assert (Card.objects.count(), CardVector.objects.count()) == (0, 0)


def test_only_the_owner_asked_for_is_renewed_and_every_card_has_its_rows_owner(anna: ChatUser, boris: ChatUser) -> None:
    person(anna)
    person(boris)
    assert items.refresh(boris) == 1
    assert Card.objects.get().owner == boris
    assert items.refresh() == 1


def test_many_rows_cost_a_bounded_number_of_queries(
    anna: ChatUser, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    Person.objects.bulk_create(Person(owner=anna, display_name=f"Person {n}") for n in range(50))
    with django_assert_max_num_queries(12):
        assert items.refresh() == 50
    Person.objects.update(updated_at=timezone.now())
    monkeypatch.setattr(items, "BATCH", 20)
    assert items.refresh() == 50


@pytest.mark.parametrize("odd", [{"a": 1}, "text", [1, None]])
def test_lists_that_are_none_break_nothing(anna: ChatUser, odd: Any) -> None:
    artifact(anna, keywords=odd)
    assert items.refresh() == 1


def test_a_long_biography_is_shown_by_its_beginning(anna: ChatUser) -> None:
    person(anna, bio="guitar " * 10_000)
    items.refresh()
    assert len(Card.objects.get().text) == items.LONGEST
