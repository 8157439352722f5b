"""Facets count and narrow lists at a fixed number of queries; any list comes as a file."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.test import Client

from memoryapp.curation import plan_edit, put_in, swap
from memoryapp.engine.events import CandidatesFound, RunFinished, RunStarted
from memoryapp.models import ChatUser, Fact, Person, Run, Topic
from tests.conftest import BEGAN, candidate
from tests.support.answering import record
from tests.support.browsing import cost, get, grow, rows, run_of, topic_of


def facet(page: str, label: str) -> dict[str, str]:
    """Returns the values of a facet with their counts; the chosen one has none."""
    found = re.search(rf"<h2>{label}</h2>(.*?)</section>", page, re.DOTALL)
    assert found, label
    values = re.findall(r'facet-words">([^<]*)</span>\s*(?:<span class="num quiet">([\d,]+)</span>)?', found[1])
    return dict(values)


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    made = [
        topic_of(anna, "Honey cake", ["Which?"]),
        topic_of(anna, "Медовик", ["Какой?"], day=40),
        topic_of(anna, "Cake", ["Again?"], day=41),
    ]
    Fact.objects.create(
        owner=anna,
        topic=made[0],
        relation="r",
        category="c",
        content="x",
        type="status",
        importance=9,
        created_at=BEGAN,
    )
    edit = swap(anna, plan_edit(anna, made[2].pk, "Honey cake"), kind="edit", actor="cora")
    return [*made[:2], *put_in(edit)]


def test_values_are_counted_and_narrow_the_list(anna: ChatUser, topics: list[Topic], as_viewer: Client) -> None:
    address = f"/memory/{anna.pk}/topics/"
    page = get(as_viewer, address)
    assert facet(page, "Letters") == {"Latin letters": "2", "Cyrillic letters": "1"}
    assert facet(page, "Facts") == {"with facts": "1", "without facts": "2"}
    assert facet(page, "Summary") == {"the same as another’s": "2", "its own": "1"}
    assert facet(page, "Made by") == {"segmenter": "2", "person": "1"}
    assert set(facet(page, "Month").values()) == {"1", "2"}
    narrow = get(as_viewer, f"{address}?script=latin&facts=no")
    assert rows(narrow, "topic") == [topics[2].pk]
    assert facet(narrow, "Letters") == {"Latin letters": "", "Cyrillic letters": "1"}, "as the other facets narrow them"
    assert "No topic matches" in get(as_viewer, f"{address}?script=runes&month=%00")


def test_topics_that_no_recent_run_showed_are_found(anna: ChatUser, topics: list[Topic], as_viewer: Client) -> None:
    run = Run.objects.create(owner=anna, query="cake?", strategy="flash", state="finished")
    found = CandidatesFound((candidate(topics[0]),), 1, 0.1)
    record(run, RunStarted("flash", "cake?", {}, "", "", "p"), found, RunFinished((), (), ""))
    page = get(as_viewer, f"/memory/{anna.pk}/topics/?recalled=no")
    assert rows(page, "topic") == [topics[2].pk, topics[1].pk]


def test_what_is_merged_as_a_whole_is_what_the_facets_list(
    anna: ChatUser, topics: list[Topic], as_admin: Client
) -> None:
    page = get(as_admin, f"/memory/{anna.pk}/merge/?all=1&script=latin")
    assert f"Topic:{topics[0].pk}" in page
    assert f"Topic:{topics[1].pk}" not in page.split("<main")[1]


@pytest.mark.parametrize(
    ("noun", "name", "value"),
    [
        ("topics", "area", "0,0;900,0;0,900"),
        ("people", "of", "family"),
        ("facts", "kind", "status"),
        ("messages", "file", ""),
        ("artifacts", "month", ""),
        ("runs", "model", ""),
    ],
)
def test_a_search_and_a_select_keep_the_facet(
    noun: str, name: str, value: str, anna: ChatUser, topics: list[Topic], as_viewer: Client
) -> None:
    address = "/runs/" if noun == "runs" else f"/memory/{anna.pk}/{noun}/"
    kept = f'<input type="hidden" name="{name}" value="{value}"'
    search = re.compile(r'<form class="toolbar".*?</form>', re.DOTALL)
    found, without = search.search(get(as_viewer, f"{address}?{name}={value}")), search.search(get(as_viewer, address))
    assert found
    assert without
    assert kept in found[0]
    assert name not in re.findall('name="([a-z_]+)"', without[0])


@pytest.mark.parametrize("noun", ["topics", "people", "facts", "messages", "artifacts"])
def test_a_list_comes_as_csv_and_json(noun: str, anna: ChatUser, topics: list[Topic], as_viewer: Client) -> None:
    Person.objects.create(owner=anna, display_name="=SUM(A1)", aliases=["Миша"])
    address = f"/memory/{anna.pk}/{noun}/"
    documents = json.loads(_file(as_viewer, f"{address}?format=json"))
    lines = list(csv.DictReader(io.StringIO(_file(as_viewer, f"{address}?format=csv").lstrip("\ufeff"))))
    assert len(documents) == len(lines)
    assert [str(each["id"]) for each in documents] == [line["id"] for line in lines]
    if noun == "people":
        assert lines[0]["name"] == "'=SUM(A1)", "no formula reaches a spreadsheet"
        assert documents[0]["also_called"] == ["Миша"]
    if noun == "topics":
        assert len(lines) == 3
        assert len(json.loads(_file(as_viewer, f"{address}?format=json&script=latin"))) == 2


def _file(client: Client, address: str) -> str:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    assert "attachment" in answer["Content-Disposition"]
    return str(answer.content.decode())


def test_runs_are_counted_by_outcome_and_come_as_a_file(anna: ChatUser, topics: list[Topic], as_viewer: Client) -> None:
    run_of(anna, topics[0])
    assert len(json.loads(_file(as_viewer, "/runs/?format=json"))) == 1
    assert json.loads(_file(as_viewer, "/runs/?format=json&how=vector")) == []


def test_another_memory_is_in_no_file(anna: ChatUser, topics: list[Topic], as_stranger: Client) -> None:
    assert as_stranger.get(f"/memory/{anna.pk}/topics/?format=csv").status_code == 404
    assert json.loads(_file(as_stranger, "/runs/?format=json")) == []


@pytest.mark.slow
@pytest.mark.parametrize(("noun", "more"), [("topics", 4_940), ("people", 140), ("facts", 140)])
def test_a_list_costs_the_same_queries_with_60_rows_and_with_thousands(
    noun: str, more: int, anna: ChatUser, as_viewer: Client
) -> None:
    address = f"/memory/{anna.pk}/{noun}/"
    grow(anna, 60)
    few = cost(as_viewer, address)
    grow(anna, more)
    assert cost(as_viewer, address) == few
