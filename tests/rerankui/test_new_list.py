"""A list needs one module and one partial: a made-up one is searched, narrowed, ordered, shown as it was, handed out as
a file and listed for programs like all others."""

import json
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.conf import LazySettings
from django.db.models import QuerySet
from django.test import Client
from django.urls import include, path
from django.utils import timezone
from ninja import Router

from memoryapp.curation import knowledge
from memoryapp.doors.api.access import Scope, Token
from memoryapp.doors.api.lists import Listing
from memoryapp.doors.api.refusals import add_handlers
from memoryapp.doors.api.shapes.fields import Answer
from memoryapp.doors.api.urls import DescribedAPI
from memoryapp.models import ChatUser, Fact, KnowledgeEdit
from rerankui.frame.filters import Filter, choice
from rerankui.lists.facets import Facet
from rerankui.lists.list_page import AskedList, ListPage
from tests.conftest import BEGAN
from tests.support.api_client import Program, token_for
from tests.support.browsing import HTMX, get, rows

pytestmark = pytest.mark.django_db(transaction=True)


class NoteFilter(Filter):
    SORTS = {"weight": ("-importance", "-id"), "text": ("content", "id")}
    WORDS = ("content",)
    type = choice("Type", "all types", list(Fact.Type.choices), by="type")


class NoteList(ListPage[Fact, NoteFilter]):
    name, title, noun = "notes", "Notes", KnowledgeEdit.Noun.FACT
    form = NoteFilter
    columns = {"id": "pk", "note": "content"}
    partial = "partials/notes.html"

    def rows(self, asked: AskedList[NoteFilter]) -> QuerySet[Fact]:
        return Fact.objects.filter(owner=asked.owner)

    def facets(self, asked: AskedList[NoteFilter]) -> tuple[Facet, ...]:
        return (Facet("category", "Category", "category"),)


class ListedNote(Answer):
    id: int
    content: str


class NotesAnswer(Answer):
    notes: list[ListedNote]
    next: str | None


NOTES = NoteList()
LISTING = Listing("notes", Fact.objects.all, NotesAnswer, "List the notes.", "Fact")
ROWS = """{% extends "partials/lists/list.html" %}
{% block rows %}{% for note in page %}<p id="note-{{ note.pk }}">{{ note.content }}</p>{% endfor %}{% endblock %}
{% block unmatched %}No such note{% endblock %}"""


@pytest.fixture(autouse=True)
def registered(settings: LazySettings, tmp_path: Path) -> None:
    """Adds its page, its partial and its endpoint."""
    (tmp_path / "partials").mkdir()
    (tmp_path / "partials" / "notes.html").write_text(ROWS)
    (engine,) = settings.TEMPLATES
    settings.TEMPLATES = [{**engine, "DIRS": [*engine["DIRS"], tmp_path]}]
    api, router, addresses = (
        DescribedAPI(urls_namespace="made-up"),
        Router(auth=Token(Scope.READ)),
        ModuleType("addresses"),
    )
    add_handlers(api)
    LISTING.serve(router)
    api.add_router("", router)
    endpoints = api.urls[0]
    for pattern in endpoints:
        pattern.callback.login_required, pattern.callback.csrf_exempt = False, True
    own: Any = [path("v1/", include((endpoints, "made-up"))), NOTES.path]
    addresses.urlpatterns = [*own, path("", include("rerankui.urls"))]
    settings.ROOT_URLCONF = addresses


@pytest.fixture
def notes(anna: ChatUser) -> list[int]:
    """Tea, cake and a bicycle, the weightiest last."""
    given = [("Green tea", "food", "context"), ("Honey cake", "food", "identity"), ("A bicycle", "things", "context")]
    made = [
        Fact(
            owner=anna,
            content=content,
            relation="self",
            category=category,
            type=type,
            importance=number,
            created_at=BEGAN,
        )
        for number, (content, category, type) in enumerate(given)
    ]
    return [fact.pk for fact in Fact.objects.bulk_create(made)]


def test_its_page_is_searched_narrowed_ordered_and_swapped(anna: ChatUser, notes: list[int], as_viewer: Client) -> None:
    tea, cake, bicycle = notes
    address = f"/memory/{anna.pk}/notes/"
    page = get(as_viewer, address)
    assert "<h1>Notes</h1>" in page
    assert rows(page, "note") == [bicycle, cake, tea]
    assert rows(get(as_viewer, f"{address}?sort=text"), "note") == [bicycle, tea, cake]
    assert rows(get(as_viewer, f"{address}?q=CAKE"), "note") == [cake]
    assert rows(get(as_viewer, f"{address}?type=context"), "note") == [bicycle, tea]
    assert 'href="?category=food"' in page
    part = get(as_viewer, f"{address}?category=food", **HTMX)
    assert (rows(part, "note"), "<h1>" in part, 'hx-swap-oob="true"' in part) == ([cake, tea], False, True)
    assert "No such note" in get(as_viewer, f"{address}?q=coffee")


def test_it_is_shown_and_handed_out_as_it_was_at_a_moment(anna: ChatUser, notes: list[int], as_viewer: Client) -> None:
    tea, cake, bicycle = notes
    before = (timezone.now() - timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
    knowledge.edit(anna, Fact.objects.get(pk=tea), {"content": "Black tea"}, actor="ada")
    address = f"/memory/{anna.pk}/notes/"
    assert rows(get(as_viewer, f"{address}?q=green"), "note") == []
    assert rows(get(as_viewer, f"{address}?q=green&as_of={before}"), "note") == [tea]
    assert "past-rule" in get(as_viewer, f"{address}?as_of={before}")
    listed = [as_viewer.get(f"{address}?sort=text&format=json{moment}") for moment in ("", f"&as_of={before}")]
    assert [[row["note"] for row in json.loads(each.content)] for each in listed] == [
        ["A bicycle", "Black tea", "Honey cake"],
        ["A bicycle", "Green tea", "Honey cake"],
    ]
    assert listed[0]["Content-Disposition"] == f'attachment; filename="notes-{anna.pk}.json"'


def test_programs_list_it_page_by_page(anna: ChatUser, notes: list[int]) -> None:
    program = Program(token_for(anna, scopes=("read",)))
    first = program.get("/v1/users/anna/notes?limit=2").json()
    assert first == {
        "notes": [{"id": notes[0], "content": "Green tea"}, {"id": notes[1], "content": "Honey cake"}],
        "next": str(notes[1]),
    }
    rest = program.get(f"/v1/users/anna/notes?after={first['next']}").json()
    assert ([row["id"] for row in rest["notes"]], rest["next"]) == ([notes[2]], None)
