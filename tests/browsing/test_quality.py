"""The page of quality: each figure counts exactly what its list shows, at a fixed number of queries."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp.curation import plan_edit, put_in, swap
from memoryapp.engine.events import CandidatesFound, RunFinished, RunStarted
from memoryapp.insight.browsing.quality import Quality, qualities
from memoryapp.models import ChatUser, Fact, Message, Operator, Passage, PassageMessage, Person, Run, Topic
from tests.conftest import BEGAN, candidate, signed_in
from tests.support.answering import record
from tests.support.browsing import cost, get, grow, message_of, opened_to, rows, topic_of

NOW = timezone.now()


def _passage(owner: ChatUser, message: Message) -> None:
    passage = Passage.objects.create(owner=owner, text=message.text, terms="x", term_count=1)
    PassageMessage.objects.create(owner=owner, passage=passage, message=message)


@pytest.fixture
def memory(anna: ChatUser) -> list[Topic]:
    """Four topics, of which the last was edited; a foreign summary each way, two equal ones, one recalled."""
    made = [
        topic_of(anna, "Honey cake", ["Какой торт печём?"]),
        topic_of(anna, "Медовик", ["Which cake is it?"], day=40),
        topic_of(anna, "A knee", ["My knee hurts"], day=41),
        topic_of(anna, "Knee", ["And the other"], day=42),
    ]
    edit = swap(anna, plan_edit(anna, made[3].pk, "A knee"), kind="edit", actor="cora")
    for message in Message.objects.of(anna):
        _passage(anna, message)
    message_of(anna, "And the parcel", minutes=99_999)
    run = Run.objects.create(owner=anna, query="cake?", strategy="flash", state="finished")
    found = CandidatesFound((candidate(made[0]),), 1, 0.1)
    record(run, RunStarted("flash", "cake?", {}, "", "", "p"), found, RunFinished((), (), ""))
    for number, until in enumerate((None, NOW - timedelta(days=2), NOW - timedelta(days=30))):
        Fact.objects.create(
            owner=anna,
            topic=made[0],
            relation="r",
            category="c",
            content=f"{number}",
            type="status",
            importance=9,
            created_at=BEGAN,
            superseded_at=until,
        )
    for mentions in (0, 1, 5):
        Person.objects.create(owner=anna, display_name=f"P{mentions}", mention_count=mentions)
    return [*made[:3], *put_in(edit)]


def test_each_figure_is_the_number_of_rows_of_its_list(
    anna: ChatUser, boris: ChatUser, memory: list[Topic], as_viewer: Client
) -> None:
    topic_of(boris, "A knee", ["Какой торт?"])
    found = qualities([anna, boris], now=timezone.now())[anna.pk]
    assert found == Quality(
        topics=4, equal=2, factless=3, segmented=3, foreign=2, unused=3, messages=5, waiting=1, quiet=1, people=3,
        seldom=2, facts=3, replaced=1,
    )  # fmt: skip
    page = get(as_viewer, f"/memory/{anna.pk}/quality/").split("<main")[1]
    shown = re.findall(
        r'class="quality-figure[^"]*" href="([^"]+)".*?<span class="quality-count num"><b>(\d+)</b>', page
    )
    assert len(shown) == 9
    for address, count in shown:
        if "?" in address:
            listed = get(as_viewer, address.replace("&amp;", "&").partition("#")[0]).split("<main")[1]
            noun = next(noun for noun in ("topic", "person", "fact", "message") if rows(listed, noun))
            assert len(rows(listed, noun)) == int(count), address


def test_a_mixed_talk_has_no_foreign_summary(anna: ChatUser, as_viewer: Client) -> None:
    mixed = topic_of(anna, "vLLM на H100", ["Почему он падает?", "CUDA out of memory", "Что делать?"])
    without = topic_of(anna, "2026-05-01", ["Какой торт?"], day=3)
    for message in Message.objects.of(anna):
        _passage(anna, message)
    page = get(as_viewer, f"/memory/{anna.pk}/topics/?written=foreign")
    assert rows(page, "topic") == []
    assert rows(get(as_viewer, f"/memory/{anna.pk}/topics/"), "topic") == [without.pk, mixed.pk]


def test_a_summary_in_another_language_of_the_same_letters_is_foreign(anna: ChatUser, as_viewer: Client) -> None:
    english = ["The cake is for you and the children", "I was at the shop and it is shut"]
    german = topic_of(anna, "Der Kuchen ist fertig und wir essen ihn", english)
    topic_of(anna, "The cake is for the children", english, day=1)
    topic_of(anna, "Kuchen", english, day=2)
    topic_of(anna, "Der Ofen ist kaputt und kalt", ["Ok", "H100"], day=3)
    for message in Message.objects.of(anna):
        _passage(anna, message)
    page = get(as_viewer, f"/memory/{anna.pk}/topics/?written=foreign")
    assert rows(page, "topic") == [german.pk]
    assert "other than its messages’" in page
    assert qualities([anna], now=timezone.now())[anna.pk].foreign == 1


def test_all_memories_stand_in_one_table_and_a_stranger_sees_none(
    anna: ChatUser, memory: list[Topic], as_viewer: Client, as_stranger: Client
) -> None:
    address = f"/memory/{anna.pk}/quality/"
    assert f'href="{address}"' in get(as_viewer, "/quality/").split("<main")[1]
    assert f'href="/memory/{anna.pk}/topics/?written=foreign">2<' in get(as_viewer, "/quality/")
    assert address not in get(as_stranger, "/quality/")
    assert as_stranger.get(address).status_code == 404
    assert f'href="{address}"' in get(as_viewer, "/find/?q=duplicates").split("<main")[1]


def test_an_empty_memory_has_nothing_to_put_right(anna: ChatUser, as_viewer: Client) -> None:
    page = get(as_viewer, f"/memory/{anna.pk}/quality/")
    assert page.count("is-clear") == 9


@pytest.mark.slow
def test_quality_costs_the_same_queries_for_many_rows_and_many_memories(viewer: Operator, anna: ChatUser) -> None:
    client = signed_in(viewer)
    opened_to(viewer, 2)
    few = cost(client, "/quality/"), cost(client, f"/memory/{anna.pk}/quality/")
    opened_to(viewer, 10)
    grow(anna, 300)
    assert (cost(client, "/quality/"), cost(client, f"/memory/{anna.pk}/quality/")) == few
