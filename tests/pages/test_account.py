"""Signing in and out, theme and language, health, and the headers of every page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.apps import apps
from django.conf import LazySettings
from django.contrib import admin as administration
from django.contrib.auth.models import User
from django.test import Client

from memoryapp.models import ChatUser, LoginSession, Operator
from tests.support.browsing import get, grow, topic_of


def test_signing_in_leads_to_where_one_was_going(anna: ChatUser, viewer: Operator) -> None:
    client = Client()
    asked = client.get(f"/memory/{anna.pk}/")
    assert asked["Location"] == f"/login/?next=/memory/{anna.pk}/"
    form = {"username": "vera", "password": "a-long-enough-word", "next": f"/memory/{anna.pk}/"}
    assert client.post("/login/", form)["Location"] == f"/memory/{anna.pk}/"


def test_a_wrong_password_is_explained_in_words(viewer: Operator) -> None:
    page = Client().post("/login/", {"username": "vera", "password": "wrong"}).content.decode()
    assert "Please enter a correct username and password" in page


def test_signing_out_takes_a_form_not_a_link(as_viewer: Client) -> None:
    assert as_viewer.get("/logout/").status_code == 405
    assert as_viewer.post("/logout/").status_code == 302
    assert as_viewer.get("/").status_code == 302


def test_the_theme_is_drawn_by_the_server(as_viewer: Client) -> None:
    assert 'data-bs-theme="auto"' in get(as_viewer, "/")
    assert as_viewer.post("/theme/", {"theme": "dark", "next": "/runs/"})["Location"] == "/runs/"
    assert 'data-bs-theme="dark"' in get(as_viewer, "/")
    as_viewer.post("/theme/", {"theme": '"><script>'})
    assert 'data-bs-theme="dark"' in get(as_viewer, "/")


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""])
def test_the_theme_switch_leads_nowhere_else(elsewhere: str, as_viewer: Client) -> None:
    assert as_viewer.post("/theme/", {"theme": "dark", "next": elsewhere})["Location"] == "/"


def test_the_language_can_be_chosen_before_signing_in(db: None) -> None:
    client = Client()
    client.post("/i18n/", {"language": "ru", "next": "/login/"})
    assert '<html lang="ru"' in client.get("/login/").content.decode()


def test_the_process_is_healthy_without_a_database() -> None:
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


def test_readiness_names_what_is_not_ready(db: None, settings: LazySettings) -> None:
    parts = ("database", "broker", "recording", "provider", "embedding")
    background = {"worker": "no sign yet", "beat": "no sign yet"}
    assert Client().get("/readyz").json() == dict.fromkeys(parts, "ok") | background
    settings.CELERY_BROKER_DIR = settings.DATA_DIR / "missing"
    settings.DATA_DIR = settings.DATA_DIR / "missing-too"
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["broker"]) == (503, "its folder cannot be written")


class Inline(HTMLParser):
    """Collects what the content security policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        handlers = [name for name in named if name.startswith("on") or name == "style"]
        is_inline = tag == "style" or (tag == "script" and "src" not in named)
        scripted = [value for value in named.values() if value and value.lower().startswith("javascript:")]
        self.refused += [f"<{tag}> {what}" for what in (*handlers, *scripted, *(["inline"] if is_inline else []))]


@pytest.mark.slow
def test_no_page_holds_what_its_own_policy_refuses(anna: ChatUser, as_admin: Client) -> None:
    grow(anna, 2)
    topic = topic_of(anna, "vLLM", ["OOM"], day=9)
    nouns = (f"/memory/{anna.pk}/{noun}" for noun in ("", "topics/", "messages/", "people/", "artifacts/", "facts/"))
    for address in ("/", "/runs/", *nouns, f"/topics/{topic.pk}/", "/find/?q=x", f"/memory/{anna.pk}/recall/"):
        answer = as_admin.get(address)
        page = Inline()
        page.feed(answer.content.decode())
        assert page.refused == [], address
        assert "unsafe" not in answer["Content-Security-Policy"]


@pytest.mark.slow
def test_every_link_of_the_rail_opens(anna: ChatUser, as_admin: Client) -> None:
    rail = get(as_admin, "/").split('<nav class="rail"')[1].split("</nav>")[0]
    links = re.findall(r'<a [^>]*href="([^"#]+)', rail)
    assert len(links) > 8
    for address in links:
        get(as_admin, address)


def test_pages_that_are_not_there_keep_the_frame(as_viewer: Client) -> None:
    answer = as_viewer.get("/nowhere/")
    assert answer.status_code == 404
    assert '<nav class="rail"' in answer.content.decode()


def test_a_fault_of_the_program_is_shown_in_the_readers_language_with_advice(
    anna: ChatUser, as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("rerankui.lists.list_page.page_of", fails)
    as_viewer.raise_request_exception = False
    answer = as_viewer.get("/runs/", headers={"Accept-Language": "ru"})
    page = answer.content.decode()
    assert answer.status_code == 500
    assert '<html lang="ru"' in page
    assert '<a class="button" href="/">' in page
    assert "broken on purpose" not in page


def test_somebody_who_is_no_operator_gets_an_explanation_without_dead_links(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create_user("nobody"))
    answer = client.get("/")
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "not an operator yet" in page
    assert 'data-opens="palette"' not in page


@pytest.fixture
def staff(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-enough-word"))
    return client


@pytest.mark.slow
def test_every_row_is_in_the_administration_and_opens(anna: ChatUser, staff: Client) -> None:
    grow(anna, 1)
    for model in apps.get_app_config("memoryapp").get_models():
        # The key of a login session opens an account, so nobody may read it; the sessions of a person are on their
        # page.
        if model._meta.auto_created or model is LoginSession:
            continue
        assert administration.site.is_registered(model), model.__name__
        get(staff, f"/admin/memoryapp/{model._meta.model_name}/?q=x")
        row = model._default_manager.first()
        if row is not None:
            get(staff, f"/admin/memoryapp/{model._meta.model_name}/{row.pk}/change/")


@pytest.mark.parametrize("noun", ["topic", "message", "run", "topicedit", "passage"])
def test_rows_with_functions_of_their_own_are_only_read_there(noun: str, anna: ChatUser, staff: Client) -> None:
    grow(anna, 1)
    assert staff.get(f"/admin/memoryapp/{noun}/add/").status_code == 403


def test_lists_stand_as_closely_as_was_chosen_and_times_name_their_zone(anna: ChatUser, as_admin: Client) -> None:
    assert 'data-density="roomy"' in get(as_admin, "/")
    assert "Times are those of UTC." in get(as_admin, "/")
    as_admin.post("/theme/", {"density": "dense"})
    assert 'data-density="dense"' in get(as_admin, "/")
    as_admin.post("/theme/", {"density": "nowhere", "theme": "dark"})
    page = get(as_admin, "/")
    assert 'data-density="dense"' in page
    assert 'data-bs-theme="dark"' in page
