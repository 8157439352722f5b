"""Saved views: an address under a name, for oneself or for all who may see the memory; and facets of messages and
files."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from django.test import Client

from memoryapp.models import Access, Artifact, ChatUser, ImportBatch, Operator, Role, SavedView
from rerankui.lists import saved
from tests.browsing.test_facets import facet
from tests.conftest import BEGAN, operator, signed_in
from tests.support.browsing import cost, get, grow, message_of, rows, topic_of

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


def test_a_list_fetched_in_part_brings_its_tabs(anna: ChatUser, as_viewer: Client) -> None:
    save(as_viewer, anna, query="script=latin")
    part = get(as_viewer, f"/memory/{anna.pk}/topics/?script=latin", **{"HX-Request": "true"})
    assert '<nav id="views" class="views" hx-swap-oob="true"' in part
    assert 'aria-current="true">To do' in part


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


def test_runs_have_views_too(anna: ChatUser, as_viewer: Client) -> None:
    get(as_viewer, f"/memory/{anna.pk}/topics/")
    address = save(as_viewer, anna, "Slow", "how=flash&sort=longest", list="runs")
    assert address == "/runs/?how=flash&sort=longest"
    assert 'aria-current="true">Slow' in get(as_viewer, address)


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


def test_files_are_narrowed_by_type_state_and_month(anna: ChatUser, as_viewer: Client) -> None:
    made = [
        Artifact.objects.create(owner=anna, name=kind, file_type=kind, sha256=kind, state=state, created_at=BEGAN)
        for kind, state in (("pdf", "ready"), ("pdf2", "failed"), ("image", "ready"))
    ]
    address = f"/memory/{anna.pk}/artifacts/"
    assert facet(get(as_viewer, address), "State") == {"ready": "2", "failed": "1"}
    assert rows(get(as_viewer, f"{address}?kind=pdf&is=ready"), "artifact") == [made[0].pk]
    assert "No artifact matches" in get(as_viewer, f"{address}?kind=pdf&is=failed")


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
