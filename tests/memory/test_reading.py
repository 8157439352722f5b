"""What a model receives before it reads: profile, inner circle, latest topics, the latest messages."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from memoryapp.engine.memory import Background
from memoryapp.intake.messages import add_messages
from memoryapp.memory import content as reading
from memoryapp.models import Artifact, ChatUser, Fact, Message, Person
from memoryapp.platform import database
from tests.conftest import contents, record, talk
from tests.support.executing import background_of

pytestmark = pytest.mark.django_db(transaction=True)


def background(owner: ChatUser, **given: Any) -> Background:
    return async_to_sync(background_of)(owner.pk, **given)


def fact(owner: ChatUser, content: str, **fields: Any) -> Fact:
    values = {"relation": "is", "category": "self", "type": "context", "importance": 50, **fields}
    return Fact.objects.create(owner=owner, content=content, created_at=timezone.now(), **values)


def person(owner: ChatUser, name: str, circle: str, **fields: Any) -> Person:
    return Person.objects.create(owner=owner, display_name=name, circle=circle, **fields)


def test_the_profile_is_who_the_user_is_and_what_matters_most(anna: ChatUser, boris: ChatUser) -> None:
    fact(anna, "an engineer", type="identity", importance=30, relation="works", category="work")
    fact(anna, "no\nsurgery", importance=80)
    fact(anna, "likes tea", importance=79)
    fact(boris, "bakes", type="identity")
    assert background(anna, profile=" Anna, 34. ").profile == (
        "Anna, 34.\n- self / is: no surgery\n- work / works: an engineer"
    )


def test_the_inner_circle_is_family_and_close_colleagues_the_most_mentioned_first(
    anna: ChatUser, boris: ChatUser
) -> None:
    person(anna, "Misha", "Family", mention_count=5, bio="An architect. " * 50)
    person(anna, "Igor", "Work_Inner", mention_count=9, username="melnik", aliases=["Igor M."])
    person(anna, "Lena", "Friends", mention_count=50)
    person(anna, "Tom", "Work_Outer", mention_count=50)
    person(boris, "Nadia", "Family")
    first, second = background(anna).inner_circle
    assert first == "Igor (@melnik) (aka Igor M.) [Work_Inner]"
    assert second.startswith("Misha [Family]: An architect.")
    assert len(second) < 250


def test_the_latest_topics_come_with_their_day_and_size(anna: ChatUser) -> None:
    talk(anna, ("Tea", ["green?", "yes"]), ("Cats", ["three?", "two"]), ("Dogs", ["any?", "no"]), ("Last", ["a", "b"]))
    recent = background(anna).recent_topics
    assert recent[0] == '2026-03-05: "Last" (2 msgs, ~2 chars)'
    assert len(recent) == 3
    assert not any("Tea" in line for line in recent)


def test_the_conversation_is_the_active_session_or_what_the_caller_tells(anna: ChatUser) -> None:
    talk(anna, ("Tea", ["green?", "yes"]))
    now = timezone.now()
    add_messages(anna, [record(100 + n, f"said {n}", at=now + timedelta(seconds=n)) for n in range(12)])
    Message.objects.filter(text="said 11").update(is_withdrawn=True)
    assert [message.text for message in background(anna).messages] == [f"said {n}" for n in range(1, 11)]
    history = contents(*(f"told {n}" for n in range(12)))
    assert background(anna, messages=history).messages == history[-10:]
    assert background(anna, messages=()).messages == ()


def test_an_empty_memory_has_no_background(anna: ChatUser) -> None:
    assert background(anna) == Background("", (), (), ())


def test_chosen_people_and_files_are_described_at_length_in_the_order_chosen_and_only_the_owners_own(
    anna: ChatUser, boris: ChatUser
) -> None:
    lena = person(anna, "Lena", "Friends", mention_count=9, bio="Runs.", last_seen=timezone.now())
    misha = person(anna, "Misha", "Family", bio="An architect.\nDraws.")
    his = person(boris, "Nadia", "Family")
    values = {"file_type": "pdf", "name": "api.pdf", "summary": "How.", "keywords": ["rest"], "rag_hints": ["Limits?"]}
    docs = Artifact.objects.create(owner=anna, sha256="1", created_at=timezone.now(), **values)

    async def read() -> Any:
        async with await psycopg.AsyncConnection.connect(database.conninfo(), autocommit=True) as connection:
            return await reading.read_items(connection, anna.pk, [misha.pk, his.pk, lena.pk], [docs.pk, 10_000])

    people, files = async_to_sync(read)()
    assert [content.id for content in people] == [f"Person:{misha.pk}", f"Person:{lena.pk}"]
    assert people[0].text == "An architect.\nDraws."
    assert people[1].head.startswith("Lena [Friends] | 9 mentions, last 20")
    assert [content.id for content in files] == [f"Artifact:{docs.pk}"]
    assert files[0].head.startswith('pdf: "api.pdf" | 20')
    assert files[0].text == "How.\nKeywords: rest\nAnswers: Limits?"
