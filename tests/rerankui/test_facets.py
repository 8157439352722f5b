"""Facets count and narrow lists at a fixed number of queries; saved views; any list as a file."""

import csv
import io
import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from memoryapp.curation import plan_edit, put_in, swap
from memoryapp.engine.events import CandidatesFound, RunFinished, RunStarted
from memoryapp.models import Access, ChatUser, ImportBatch, Operator, Person, Role, Run, SavedView, Topic
from rerankui.lists import saved
from tests.conftest import candidate, fact_of, operator, signed_in
from tests.support.answering import record
from tests.support.browsing import cost, get, grow, message_of, rows, run_of, topic_of


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
    fact_of(anna, "x", made[0], relation="r", category="c", importance=9)
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


# Saved views: an address under a name, for oneself or for all who may see the memory; and facets of messages and
# files.


QUERY = "script=latin&facts=no&sort=longest"


def save(client: Client, owner: ChatUser, name: str = "To do", query: str = QUERY, **more: str) -> str:
    sent = {"list": "topics", "query": query, "name": name, "next": f"/memory/{owner.pk}/topics/", **more}
    answer = client.post(f"/memory/{owner.pk}/views/", sent)
    assert answer.status_code == 302
    return str(answer["Location"])


def test_a_view_is_kept_opened_renamed_and_deleted(anna: ChatUser, as_viewer: Client) -> None:
    topic_of(anna, "Honey cake", ["Which?"]), topic_of(anna, "Медовик", ["Какой?"], day=3)
    address = save(as_viewer, anna, query=f"{QUERY}&q={quote('cake & honey')}&after=1,2&as_of=2026-01-01")
    view = SavedView.objects.get()
    assert view.query == {"facts": ["no"], "q": ["cake & honey"], "script": ["latin"], "sort": ["longest"]}
    page = get(as_viewer, address)
    assert f'href="{address.replace("&", "&amp;")}" aria-current="true">To do' in page
    assert "Save this view" not in page
    change = f"/memory/{anna.pk}/views/{view.pk}/"
    assert as_viewer.get(change)["Location"] == address
    as_viewer.post(change, {"name": "  Later  on "})
    assert "Later on" in get(as_viewer, f"/memory/{anna.pk}/topics/")
    save(as_viewer, anna, "Latin", "script=latin")
    as_viewer.post(change, {"name": "Latin"})
    assert "Another view of this list" in get(as_viewer, address)
    assert as_viewer.post(change, {"delete": "1"})["Location"] == address, "the list stays as it was"
    assert [each.name for each in SavedView.objects.all()] == ["Latin"]


def test_what_cannot_be_kept_is_refused_with_a_sentence(anna: ChatUser, as_viewer: Client) -> None:
    address = f"/memory/{anna.pk}/views/"
    assert as_viewer.post(address, {"list": "secrets", "query": "q=1", "name": "x"}).status_code == 400
    for name, query, sentence in (
        ("x" * 81, "q=1", "A view needs a name"),
        (" \0 ", "q=1", "A view needs a name"),
        ("x", f"q={'y' * 2_001}", "too long to be kept"),
        ("x", "&".join(f"p{n}=1" for n in range(30)), "too long to be kept"),
    ):
        assert sentence in get(as_viewer, save(as_viewer, anna, name, query))
    assert not SavedView.objects.exists()
    save(as_viewer, anna, "x", "q=1")
    save(as_viewer, anna, "x", "q=2")
    assert SavedView.objects.get().query == {"q": ["2"]}, "the same name is the same view"


def test_a_view_is_ones_own_until_it_is_shared(
    anna: ChatUser, as_viewer: Client, as_debugger: Client, as_stranger: Client, as_admin: Client
) -> None:
    save(as_viewer, anna, "Mine"), save(as_viewer, anna, "Ours", "q=x", shared="on")
    page = get(as_debugger, f"/memory/{anna.pk}/topics/")
    assert "Ours" in page
    assert "Mine" not in page
    assert "Ours" in get(as_debugger, "/find/?q=our").split("<main")[1]
    assert ">Mine<" not in get(as_debugger, "/find/?q=mine").split("<main")[1]
    assert ">Ours<" not in get(as_stranger, "/find/?q=our").split("<main")[1]
    mine, ours = (SavedView.objects.get(name=name) for name in ("Mine", "Ours"))
    assert as_debugger.get(f"/memory/{anna.pk}/views/{mine.pk}/").status_code == 404
    as_debugger.post(f"/memory/{anna.pk}/views/{ours.pk}/", {"delete": "1"})
    assert SavedView.objects.filter(pk=ours.pk).exists()
    curator = signed_in(operator("cora", Role.CURATOR, anna))
    curator.post(f"/memory/{anna.pk}/views/{ours.pk}/", {"delete": "1"})
    assert not SavedView.objects.filter(pk=ours.pk).exists()


def test_whoever_loses_a_memory_loses_its_views(anna: ChatUser, viewer: Operator) -> None:
    save(signed_in(viewer), anna)
    assert saved.offered(viewer).count() == 1
    Access.objects.filter(operator=viewer).delete()
    assert saved.offered(viewer).count() == 0


def test_messages_are_narrowed_by_author_role_chat_month_and_file(anna: ChatUser, as_viewer: Client) -> None:
    batch = ImportBatch.objects.create(owner=anna, source="result.json", format="telegram")
    first = message_of(anna, "In the chat", session="Family", batch=batch)
    message_of(anna, "An answer", minutes=1, role="assistant", session="Family")
    later = message_of(anna, "A month on", minutes=60_000, session="Work")
    address = f"/memory/{anna.pk}/messages/"
    page = get(as_viewer, address)
    assert facet(page, "Author") == {"Anna": "2", "bot": "1"}
    assert facet(page, "Role") == {"user": "2", "assistant": "1"}
    assert facet(page, "Chat or session") == {"Family": "2", "Work": "1"}
    assert facet(page, "Imported from") == {"none": "2", "result.json": "1"}
    assert set(facet(page, "Month").values()) == {"2", "1"}
    narrow = get(as_viewer, f"{address}?chat=Family&who=Anna")
    assert rows(narrow, "message") == [first.pk]
    assert ">1 message<" in narrow.replace(" </", "</").replace("> ", ">")
    assert rows(get(as_viewer, f"{address}?file=&as=user"), "message") == [later.pk]
    assert "No message matches" in get(as_viewer, f"{address}?chat=Elsewhere")
    file = as_viewer.get(f"{address}?format=json&chat=Family").content
    assert len(json.loads(file)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("noun", ["topics", "messages", "artifacts"])
def test_many_views_and_rows_cost_a_list_the_same_queries(noun: str, anna: ChatUser, as_viewer: Client) -> None:
    address = f"/memory/{anna.pk}/{noun}/"
    save(as_viewer, anna, "first")
    grow(anna, 3)
    few = cost(as_viewer, address)
    for number in range(9):
        save(as_viewer, anna, f"view {number}")
    grow(anna, 100)
    assert cost(as_viewer, address) == few
