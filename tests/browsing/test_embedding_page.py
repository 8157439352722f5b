"""The page of embedding profiles: the cost of another model, which only an admin may approve, and thresholds."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryapp.insight.browsing.profiles import forecast, measured
from memoryapp.models import ChatUser, EmbeddingProfile, Operator, Passage, PassageVector, Topic, TopicVector
from memoryapp.search import profiles
from memoryapp.upkeep import tasks
from tests.conftest import signed_in, talk
from tests.search.test_profiles import Endpoints, connect, endpoints, served

__all__ = ["endpoints", "served"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(admin: Operator) -> Client:
    return signed_in(admin)


@pytest.fixture
def changed(served: list[Topic], settings: Any) -> EmbeddingProfile:
    """The settings name the model "new", and "old" serves."""
    connect(settings, "new")
    return profiles.configured()


def page(browser: Client) -> str:
    return browser.get("/embedding/").content.decode()


def change(browser: Client, row: EmbeddingProfile, do: str, **fields: Any) -> int:
    return int(browser.post(f"/embedding/{row.pk}/", {"do": do, **fields}).status_code)


@pytest.mark.slow
def test_an_admin_reads_what_it_costs_agrees_and_sees_it_serve(
    browser: Client, changed: EmbeddingProfile, endpoints: Endpoints, settings: Any
) -> None:
    settings.EMBEDDING_PRICE = 1000.0
    before = page(browser)
    expected = forecast(changed)
    assert expected
    assert expected.texts == Passage.objects.count() + 2
    assert f"{expected.texts} texts have no vector yet: about {expected.tokens} tokens." in " ".join(before.split())
    assert f"${expected.tokens / 1000:.4f}" in before
    assert "Make these vectors" in before
    assert change(browser, changed, "ask") == 302
    assert "is being made" in page(browser)
    tasks.embed_pending()
    assert profiles.serving() == changed
    assert "Make these vectors" not in page(browser)


@pytest.mark.slow
def test_the_overview_leads_an_admin_to_a_model_that_nobody_agreed_to(
    browser: Client, as_debugger: Client, changed: EmbeddingProfile
) -> None:
    waits = "The settings name the embedding model new"
    assert waits in browser.get("/").content.decode()
    assert waits not in as_debugger.get("/").content.decode()
    change(browser, changed, "ask")
    assert waits not in browser.get("/").content.decode()
    profiles.serve(changed)
    assert waits not in browser.get("/").content.decode()


def test_where_no_vector_is_missing_no_text_is_measured(browser: Client, served: list[Topic]) -> None:
    with CaptureQueriesContext(connection) as asked:
        page(browser)
    assert not [query["sql"] for query in asked if "LENGTH(" in query["sql"]]


def test_a_price_that_is_not_known_is_not_made_up(browser: Client, changed: EmbeddingProfile, settings: Any) -> None:
    settings.EMBEDDING_PRICE = -1.0
    assert "What they cost is not known" in page(browser)


@pytest.mark.slow
def test_the_forecast_is_about_what_is_then_sent(
    changed: EmbeddingProfile, endpoints: Endpoints, anna: ChatUser
) -> None:
    talk(anna, ("bread", ["How long must the dough of a rye bread rest? " * 40, "Some fourteen hours. " * 60]))
    expected = forecast(changed)
    assert expected
    profiles.ask(changed, "olga")
    tasks.embed_pending()
    sent = endpoints.asked["new"]
    assert len(sent) == expected.texts
    assert expected.tokens == pytest.approx(sum(map(len, sent)) / 4, rel=0.15)


@pytest.mark.slow
def test_a_serving_model_that_no_setting_reaches_any_more_is_named_plainly(
    browser: Client, served: list[Topic], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    settings.EMBEDDING_BASE_URL = "https://elsewhere.example/v1"
    shown = " ".join(page(browser).split())
    assert "No setting names the address of vectors.example, so this model cannot be asked" in shown


def test_only_admins_come_in(stranger: Operator, changed: EmbeddingProfile) -> None:
    client = signed_in(stranger)
    assert client.get("/embedding/").status_code == 403
    assert change(client, changed, "ask") == 403
    assert EmbeddingProfile.objects.get(pk=changed.pk).asked_at is None


def test_what_was_agreed_to_can_be_stopped_and_what_nobody_knows_is_refused(
    browser: Client, changed: EmbeddingProfile
) -> None:
    change(browser, changed, "ask")
    change(browser, changed, "stop")
    assert EmbeddingProfile.objects.get(pk=changed.pk).asked_at is None
    assert change(browser, changed, "explode") == 400
    change(browser, EmbeddingProfile.objects.get(model="old"), "serve")
    assert profiles.serving().model == "old"


def test_a_model_can_be_searched_before_all_its_vectors_are_made(browser: Client, changed: EmbeddingProfile) -> None:
    change(browser, changed, "serve")
    assert profiles.serving() == changed


@pytest.mark.slow
def test_vectors_that_nothing_needs_any_longer_are_removed_by_an_admin(
    browser: Client, stranger: Operator, changed: EmbeddingProfile, endpoints: Endpoints
) -> None:
    old = profiles.serving()
    assert "Remove" not in page(browser)
    change(browser, changed, "ask")
    tasks.embed_pending()
    kept = PassageVector.objects.filter(profile=changed).count()
    vectors = Passage.objects.count() + 2
    assert f"{vectors} vectors are removed. If you return to this model, they are made again" in " ".join(
        page(browser).split()
    )
    assert change(signed_in(stranger), old, "remove") == 403
    assert PassageVector.objects.filter(profile=old).exists()
    change(browser, old, "remove")
    assert not PassageVector.objects.filter(profile=old).exists()
    assert not TopicVector.objects.filter(profile=old).exists()
    assert PassageVector.objects.filter(profile=changed).count() == kept > 0
    assert "Remove" not in page(browser)


@pytest.mark.slow
def test_vectors_that_serve_or_are_made_are_never_removed(
    browser: Client, changed: EmbeddingProfile, endpoints: Endpoints
) -> None:
    before = PassageVector.objects.count()
    change(browser, profiles.serving(), "remove")
    change(browser, changed, "ask")
    tasks.embed_pending()
    change(browser, EmbeddingProfile.objects.get(model="old"), "serve")
    answer = browser.post(f"/embedding/{changed.pk}/", {"do": "remove"}, follow=True)
    assert "is in use. Nothing was removed." in answer.content.decode()
    assert PassageVector.objects.count() == 2 * before


@pytest.mark.slow
def test_thresholds_follow_from_what_was_measured_and_are_adopted_with_one_click(
    browser: Client, anna: ChatUser, endpoints: Endpoints
) -> None:
    talk(anna, *((f"topic {number}", [f"question {number}", f"answer {number}"]) for number in range(30)))
    tasks.embed_pending()
    row = profiles.serving()
    found = measured(row)
    assert found.passages.pairs == found.topics.pairs == 30 * 29 // 2
    assert sum(column.share for column in found.topics.columns) == pytest.approx(1)
    assert found.passages.proposed is not None
    assert found.topics.proposed is not None
    # Random directions in 16 dimensions: half of the cosines are below 0, five in a thousand above .6.
    assert found.passages.proposed == 0
    assert 0.5 < found.topics.proposed < 0.75
    picture = browser.get(f"/embedding/{row.pk}/similarities/").content.decode()
    assert f"proposed: {found.topics.proposed}" in picture
    adopted = {"threshold": found.passages.proposed, "consolidation_threshold": found.topics.proposed}
    change(browser, row, "adopt", **adopted)
    row.refresh_from_db()
    assert (row.threshold, row.consolidation_threshold) == tuple(adopted.values())
    change(browser, row, "adopt", threshold="2", consolidation_threshold="much")
    row.refresh_from_db()
    assert row.threshold == found.passages.proposed


def test_too_few_vectors_propose_nothing(browser: Client, served: list[Topic]) -> None:
    picture = browser.get(f"/embedding/{profiles.serving().pk}/similarities/").content.decode()
    assert "too few vectors" in picture
    assert "Adopt" not in picture


@pytest.mark.slow
def test_without_a_page_the_command_says_the_same_and_does_it(
    changed: EmbeddingProfile, endpoints: Endpoints, settings: Any
) -> None:
    settings.EMBEDDING_PRICE = 2.0
    output = StringIO()
    call_command("embed", stdout=output)
    assert "test/" not in output.getvalue()
    assert "the settings ask for vectors.example/new@16" in output.getvalue()
    assert "With --yes they are made." in output.getvalue()
    assert "new" not in endpoints.asked
    output = StringIO()
    call_command("embed", "--yes", "--json", stdout=output)
    report = json.loads(output.getvalue())
    assert (report["is_serving"], report["made"]) == (True, Passage.objects.count() + 2)
    paid = len(endpoints.asked["new"])
    call_command("embed", "--yes", "--topics-anew", stdout=StringIO())
    assert len(endpoints.asked["new"]) == paid + 2
