"""The page of embedding profiles: the cost of another model, its approval, and the change until its thresholds."""

import json
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryapp.engine.embeddings import Profile, Vectors
from memoryapp.insight.browsing.profiles import forecast, measured
from memoryapp.models import ChatUser, EmbeddingProfile, Operator, Passage, PassageVector, Topic, TopicVector
from memoryapp.platform.backlog import BacklogCollector
from memoryapp.platform.llm import clients
from memoryapp.search import profiles
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import tasks
from tests.conftest import signed_in, talk
from tests.rerankui.test_pipeline import section
from tests.search.test_profiles import Endpoints, connect, endpoints, served
from tests.search.test_vectors import Hashing

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


def test_where_no_vector_is_missing_no_text_is_measured(browser: Client, served: list[Topic]) -> None:
    with CaptureQueriesContext(connection) as asked:
        page(browser)
    assert not [query["sql"] for query in asked if "LENGTH(" in query["sql"]]


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


# A change of the embedding model as the pages and the metrics show it, from its first vector to its thresholds.


TOOK_OVER = "new took over, and its thresholds are not measured ones"


@pytest.fixture
def coming(served: list[Topic], settings: Any) -> EmbeddingProfile:
    """The profile of the model "new", whose vectors an admin approved while "old" serves."""
    connect(settings, "new")
    profiles.ask(profiles.configured(), "olga")
    return profiles.configured()


class Watched(Hashing):
    """Calls ``look`` while vectors are requested from it."""

    def __init__(self, profile: Profile, look: Callable[[], None]) -> None:
        super().__init__(profile.model, profile.dimensions)
        self.profile, self._look = profile, look

    async def embed(self, texts: Sequence[str]) -> Vectors:
        await sync_to_async(self._look)()
        return await super().embed(texts)


def depth(queue: str) -> float:
    family, *_ages = BacklogCollector(clients.profile()).collect()
    return next(sample.value for sample in family.samples if sample.labels["queue"] == queue)


def pages(browser: Client) -> list[str]:
    """Returns the pages that mention a change of the model: its own page, the overview and the pipeline."""
    shown = [browser.get(address).content.decode() for address in ("/embedding/", "/", "/pipeline/")]
    return [" ".join(page.split()) for page in shown]


@pytest.mark.slow
def test_the_pipeline_shows_what_waits_for_the_model_that_is_to_take_over(
    coming: EmbeddingProfile, browser: Client, as_viewer: Client, anna: ChatUser
) -> None:
    talk(anna, ("dogs", ["any?", "none"]))
    count = Passage.objects.count()
    for client in (browser, as_viewer):
        shown = section(client.get("/pipeline/").content.decode(), "embed")
        assert f"old at vectors.example makes vectors. {count} passages without a vector" in shown
        assert f"vectors.example/new@16 is to take over: {count} passages have no vector of it yet." in shown


@pytest.mark.slow
def test_the_work_for_it_is_shown_by_its_name_beside_that_for_the_one_that_serves(
    coming: EmbeddingProfile, as_viewer: Client, anna: ChatUser
) -> None:
    seen: list[str] = []

    def look() -> None:
        seen.append(section(as_viewer.get("/pipeline/").content.decode(), "embed"))

    async_to_sync(embed_pending)(Watched(profiles.profile_of(coming), look))
    assert f"{anna} · vectors.example/new@16 0 passages (0 %)" in seen[0]


def test_its_queue_is_measured_beside_that_of_the_one_that_serves(coming: EmbeddingProfile, anna: ChatUser) -> None:
    assert depth("passages_without_next_vector") == Passage.objects.count()
    assert depth("passages_without_vector") == 0
    talk(anna, ("dogs", ["any?", "none"]))
    assert depth("passages_without_vector") == 1
    tasks.embed_pending()
    assert profiles.serving() == coming
    assert (depth("passages_without_next_vector"), depth("passages_without_vector")) == (0, 0)


def test_a_model_that_serves_before_its_vectors_are_made_has_a_queue(coming: EmbeddingProfile) -> None:
    profiles.serve(coming)
    assert (depth("passages_without_next_vector"), depth("passages_without_vector")) == (0, Passage.objects.count())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("do", "values", "thresholds"),
    [("keep", {}, None), ("adopt", {"threshold": 0.25, "consolidation_threshold": 0.5}, (0.25, 0.5))],
)
def test_proposed_thresholds_are_led_to_until_somebody_decides(
    coming: EmbeddingProfile, browser: Client, do: str, values: Any, thresholds: tuple[float, float] | None
) -> None:
    assert not any(TOOK_OVER in page for page in pages(browser))
    tasks.embed_pending()
    shown = pages(browser)
    assert all(TOOK_OVER in page for page in shown)
    assert f'href="/embedding/#similarities-{coming.pk}"' in shown[2]
    before = (coming.threshold, coming.consolidation_threshold)
    assert browser.post(f"/embedding/{coming.pk}/", {"do": do, **values}).status_code == 302
    assert not any(TOOK_OVER in page for page in pages(browser))
    coming.refresh_from_db()
    assert (coming.threshold, coming.consolidation_threshold) == (thresholds or before)


@pytest.mark.slow
def test_who_may_not_decide_on_thresholds_is_not_led_to_them(coming: EmbeddingProfile, as_debugger: Client) -> None:
    profiles.serve(coming)
    for address in ("/", "/pipeline/"):
        assert TOOK_OVER not in as_debugger.get(address).content.decode()


@pytest.mark.slow
def test_a_decision_outlasts_a_change_there_and_back(
    coming: EmbeddingProfile, browser: Client, settings: Any, served: list[Topic]
) -> None:
    tasks.embed_pending()
    browser.post(f"/embedding/{coming.pk}/", {"do": "keep"})
    profiles.serve(EmbeddingProfile.objects.get(model="old"))
    profiles.serve(coming)
    assert not any(TOOK_OVER in page for page in pages(browser))
