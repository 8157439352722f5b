"""Signing in and out, theme, language and time zone, devices, health, and the headers and bodies of every page."""

import gzip
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.conf import LazySettings
from django.contrib import admin as administration
from django.test import Client
from django.utils import timezone

from memoryapp.models import ChatUser, LoginSession, Operator, UnmaskedText
from rerankui.account.account import device_name
from rerankui.templatetags.memory import clock, span_of
from rerankui.text.words import absolute
from rerankui.web.pages import COOKIE, reader_zone, zone_names
from tests.examples import table
from tests.support.browsing import get, grow, message_of, topic_of


def test_signing_in_leads_to_where_one_was_going(anna: ChatUser, viewer: Operator) -> None:
    client = Client()
    asked = client.get(f"/memory/{anna.pk}/")
    assert asked["Location"] == f"/login/?next=/memory/{anna.pk}/"
    form = {"username": "vera", "password": "a-long-enough-word", "next": f"/memory/{anna.pk}/"}
    assert client.post("/login/", form)["Location"] == f"/memory/{anna.pk}/"


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


@pytest.mark.slow
def test_every_row_is_in_the_administration_and_opens(anna: ChatUser, as_root: Client) -> None:
    grow(anna, 1)
    for model in apps.get_app_config("memoryapp").get_models():
        # The key of a login session opens an account, so nobody may read it; the sessions of a person are on their
        # page. What is behind a mask is shown where the audit log knows of it.
        if model._meta.auto_created or model in (LoginSession, UnmaskedText):
            continue
        assert administration.site.is_registered(model), model.__name__
        get(as_root, f"/admin/memoryapp/{model._meta.model_name}/?q=x")
        row = model._default_manager.first()
        if row is not None:
            get(as_root, f"/admin/memoryapp/{model._meta.model_name}/{row.pk}/change/")


# Times are shown in the reader's time zone, and days begin at the reader's midnight.


EVENING = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)


def test_only_zones_of_places_are_chosen_from() -> None:
    names = zone_names()
    assert names[0] == "UTC"
    assert {"Europe/Berlin", "Asia/Tokyo", "America/Argentina/Buenos_Aires"} < set(names)
    assert not {"localtime", "Factory", "GB", "Etc/GMT+4", "EST5EDT", "posixrules"} & set(names)
    assert 300 < len(names) < 550


@pytest.mark.parametrize(
    ("name", "offset"),
    [("Asia/Tokyo", 9), ("America%2FNew_York", -5), ("", 0), ("Nowhere/Land", 0), ("America", 0), ("../etc/passwd", 0)],
)
def test_a_zone_is_taken_from_the_cookie_and_nothing_else_is_one(name: str, offset: int) -> None:
    assert EVENING.astimezone(reader_zone({COOKIE: name})).utcoffset() == timedelta(hours=offset)


def test_moments_are_written_on_the_readers_clock_with_its_zone() -> None:
    with timezone.override(ZoneInfo("Asia/Tokyo")):
        assert (absolute(EVENING), clock(EVENING)) == ("3 March 2026, 07:30 JST", "07:30")
        assert span_of(EVENING - timedelta(hours=8), EVENING) == "2 Mar 2026 – 3 Mar 2026"
    with timezone.override(ZoneInfo("America/Sao_Paulo")):
        assert absolute(EVENING) == "2 March 2026, 19:30 UTC-03"
    assert absolute(EVENING) == "2 March 2026, 22:30 UTC"


def test_a_day_of_the_talk_begins_at_the_readers_midnight(as_viewer: Client, anna: ChatUser) -> None:
    """Nine and three o'clock in London are one day; in Tokyo midnight is between them."""
    topic_of(anna, "One day", ["Good morning"])
    message_of(anna, "Good afternoon", minutes=360)
    address = f"/memory/{anna.pk}/messages/"
    assert re.findall(r'class="day"><span>([^<]+)', get(as_viewer, address)) == ["Monday, 2 March 2026"]
    as_viewer.cookies[COOKIE] = "Asia/Tokyo"
    there = get(as_viewer, address)
    assert re.findall(r'class="day"><span>([^<]+)', there) == ["Monday, 2 March 2026", "Tuesday, 3 March 2026"]
    assert "18:00" in there
    assert "00:00" in there


# A login session is identified by its browser and system, not by a line that only programs read.


@pytest.mark.parametrize(("user_agent", "name"), table("devices"))
def test_a_device_is_named_in_two_words(user_agent: str, name: str) -> None:
    assert device_name(user_agent) == name


# Pages are sent compressed; streams that programs read as they arrive are not.


GZIP = {"accept-encoding": "gzip"}


def test_a_page_travels_compressed_to_who_can_read_it(as_viewer: Client, anna: ChatUser) -> None:
    grow(anna, 3)
    address = f"/memory/{anna.pk}/topics/"
    plain, packed = as_viewer.get(address), as_viewer.get(address, headers=GZIP)
    assert packed["Content-Encoding"] == "gzip"
    assert b"Summary 1" in gzip.decompress(packed.content)
    assert len(packed.content) < len(plain.content) / 3
    assert "Content-Encoding" not in plain
    assert "Accept-Encoding" in plain["Vary"]


@pytest.mark.slow
def test_a_program_reads_its_answer_as_it_is(client: Client, db: None) -> None:
    assert "Content-Encoding" not in client.get("/v1/openapi.json", headers=GZIP)
