"""A change of the embedding model as the pages and the metrics show it, from its first vector to its thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.test import Client

from memoryapp.engine.embeddings import Profile, Vectors
from memoryapp.models import ChatUser, EmbeddingProfile, Operator, Passage, Topic
from memoryapp.platform.backlog import BacklogCollector
from memoryapp.platform.llm import clients
from memoryapp.search import profiles
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import tasks
from tests.conftest import signed_in, talk
from tests.pages.test_pipeline import section
from tests.search.test_profiles import connect, endpoints, served
from tests.search.test_vectors import Hashing

__all__ = ["endpoints", "served"]

pytestmark = pytest.mark.django_db

TOOK_OVER = "new took over, and its thresholds are not measured ones"


@pytest.fixture
def browser(admin: Operator) -> Client:
    return signed_in(admin)


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
