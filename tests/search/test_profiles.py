"""Which embedding profile serves, and how another replaces it without a wait and without costs that nobody approved."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.utils import timezone

from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors
from memoryapp.engine.http_embedder import HttpEmbedder
from memoryapp.engine.offline.sentence_encoder import OfflineEmbedder
from memoryapp.models import ChatUser, EmbeddingProfile, Passage, PassageVector, RefusedText, Topic
from memoryapp.platform.llm import clients
from memoryapp.runs.clients import Serving
from memoryapp.search import profiles
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.search.test_vectors import Hashing


class Endpoints:
    """Embedders of every profile. ``asked`` are the texts that each model received; those in ``away`` fail."""

    def __init__(self) -> None:
        self.asked: dict[str, list[str]] = {}
        self.away: set[str] = set()
        self.refused: set[str] = set()
        self.killed_after = 10**9

    def of(self, profile: Profile, http: httpx.AsyncClient | None = None) -> Hashing:
        endpoints = self

        class Endpoint(Hashing):
            async def embed(self, texts: Sequence[str]) -> Vectors:
                paid = endpoints.asked.setdefault(profile.model, [])
                if profile.model in endpoints.away:
                    raise EmbeddingError("The endpoint is away.")
                if profile.model in endpoints.refused and texts != ["ok"]:
                    raise EmbeddingError("The endpoint answered 400.")
                if len(paid) >= endpoints.killed_after:
                    raise SystemExit
                paid += texts
                return await super().embed(texts)

        endpoint = Endpoint(profile.model, profile.dimensions)
        endpoint.profile = replace(profile)
        return endpoint


@pytest.fixture
def endpoints(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Endpoints:
    made = Endpoints()
    monkeypatch.setattr(clients, "embedder_of", made.of)
    connect(settings, "old")
    return made


def connect(settings: Any, model: str) -> None:
    settings.EMBEDDING_BASE_URL, settings.EMBEDDING_DIMENSIONS = "https://vectors.example/v1", 16
    settings.EMBEDDING_MODEL = model


@pytest.fixture
def served(anna: ChatUser, endpoints: Endpoints) -> list[Topic]:
    """A memory whose vectors are those of the model "old", which serves."""
    topics = talk(anna, ("tea", ["green?", "yes", "black?", "no"]), ("cats", ["how many?", "three"]))
    tasks.embed_pending()
    assert profiles.serving().model == "old"
    return topics


@pytest.mark.slow
def test_another_model_costs_nothing_and_serves_nobody_until_a_person_agrees(
    served: list[Topic], endpoints: Endpoints, settings: Any
) -> None:
    connect(settings, "new")
    tasks.embed_pending()
    assert "new" not in endpoints.asked
    assert profiles.serving_profile().model == "old"
    profiles.ask(profiles.configured(), "olga")
    tasks.embed_pending()
    assert profiles.serving_profile().model == "new"
    assert len(endpoints.asked["new"]) == Passage.objects.count() + 2
    row = EmbeddingProfile.objects.get(model="new")
    assert (row.is_serving, row.asked_at) == (True, None)
    assert EmbeddingProfile.objects.filter(is_serving=True).count() == 1


@pytest.mark.slow
def test_the_old_model_serves_what_is_new_while_the_other_is_made_and_killed_in_between(
    served: list[Topic], endpoints: Endpoints, settings: Any, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(settings, "new")
    profiles.ask(profiles.configured(), "olga")
    monkeypatch.setattr("memoryapp.search.vectors.embed_pending.__defaults__", (None, 1))
    endpoints.killed_after = len(endpoints.asked["old"]) + 4
    endpoints.asked["new"] = [""] * (endpoints.killed_after - 2)
    with pytest.raises(SystemExit):
        tasks.embed_pending()
    assert PassageVector.objects.filter(profile__model="new").count() == 2
    talk(anna, ("dogs", ["any?", "none"]))
    endpoints.killed_after = 10**9
    tasks.embed_pending()
    assert profiles.serving_profile().model == "new"
    for model in ("old", "new"):
        paid = [text for text in endpoints.asked[model] if text]
        assert len(paid) == len(set(paid)) == Passage.objects.count() + 3, f"{model} was paid twice or too little"


@pytest.mark.slow
def test_a_model_that_is_away_for_a_while_keeps_the_other_from_nothing(
    served: list[Topic], endpoints: Endpoints, settings: Any, anna: ChatUser, caplog: pytest.LogCaptureFixture
) -> None:
    connect(settings, "new")
    profiles.ask(profiles.configured(), "olga")
    endpoints.away = {"new"}
    talk(anna, ("dogs", ["any?", "none"]))
    tasks.embed_pending()
    assert profiles.serving_profile().model == "old"
    assert PassageVector.objects.filter(profile__model="old").count() == Passage.objects.count()
    endpoints.away = {"old"}
    EmbeddingProfile.objects.update(rests_until=timezone.now())
    tasks.embed_pending()
    assert profiles.serving_profile().model == "new"


@pytest.mark.slow
def test_a_model_that_refuses_nearly_everything_does_not_take_over(
    served: list[Topic], endpoints: Endpoints, settings: Any
) -> None:
    connect(settings, "new")
    profiles.ask(profiles.configured(), "olga")
    endpoints.refused = {"new"}
    tasks.embed_pending()
    assert profiles.serving_profile().model == "old"
    assert RefusedText.objects.count() == Passage.objects.count() + 2


@pytest.mark.slow
def test_what_was_asked_for_can_be_stopped_and_what_was_made_is_not_paid_for_again(
    served: list[Topic], endpoints: Endpoints, settings: Any, anna: ChatUser
) -> None:
    connect(settings, "new")
    profiles.ask(profiles.configured(), "olga")
    tasks.embed_pending()
    connect(settings, "old")
    tasks.embed_pending()
    assert profiles.serving_profile().model == "old", "a profile that lacks nothing serves without a word"
    talk(anna, ("dogs", ["any?", "none"]))
    connect(settings, "new")
    profiles.ask(profiles.configured(), "olga")
    profiles.stop(profiles.configured())
    before = len(endpoints.asked["new"])
    tasks.embed_pending()
    assert profiles.serving_profile().model == "old"
    assert len(endpoints.asked["new"]) == before
    profiles.ask(profiles.configured(), "olga")
    tasks.embed_pending()
    assert len(endpoints.asked["new"]) == before + 2


@pytest.mark.django_db(transaction=True)
def test_runs_that_begin_later_search_in_the_profile_that_took_over(
    served: list[Topic], endpoints: Endpoints, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryapp.runs.clients.LOOKED_UP_EVERY", 0.0)

    async def models() -> list[str]:
        async with httpx.AsyncClient() as http:
            serving = Serving(http)
            before = await serving.embedder()
            assert await serving.embedder() == before
            await profiles_take_over()
            after = await serving.embedder()
            return [embedder.profile.model for embedder, _row in (before, after)]

    async def profiles_take_over() -> None:
        connect(settings, "new")
        await sync_to_async(profiles.serve)(await sync_to_async(profiles.configured)())

    assert async_to_sync(models)() == ["old", "new"]


@pytest.mark.slow
def test_vectors_of_other_prefixes_are_those_of_another_profile(
    served: list[Topic], endpoints: Endpoints, settings: Any
) -> None:
    """Models such as e5 expect words before queries and passages; other words make vectors that do not compare."""
    settings.EMBEDDING_QUERY_PREFIX, settings.EMBEDDING_PASSAGE_PREFIX = "query: ", "passage: "
    tasks.embed_pending()
    assert profiles.serving_profile().passage_prefix == ""
    assert profiles.awaiting_consent() == clients.profile()
    before = len(endpoints.asked["old"])
    profiles.ask(profiles.configured(), "olga")
    tasks.embed_pending()
    assert profiles.serving_profile().as_queries(["key"]) == ["query: key"]
    assert {text.partition(" ")[0] for text in endpoints.asked["old"][before:]} == {"passage:"}
    settings.EMBEDDING_QUERY_PREFIX = settings.EMBEDDING_PASSAGE_PREFIX = ""
    assert profiles.profile_of(profiles.serving()).query_prefix == "query: "
    assert EmbeddingProfile.objects.count() == 2


class TestEmbeddersOfProfiles:
    """The embedder of a profile depends on the addresses in the settings."""

    before: ClassVar[Profile] = Profile("old.example", "small", 4, 0.3)

    def test_the_embedded_one_is_always_there(self, settings: Any) -> None:
        settings.EMBEDDING_BASE_URL = "https://new.example/v1"
        assert isinstance(clients.embedder_of(clients.offline_embedder().profile), OfflineEmbedder)

    def test_another_model_of_the_same_host_is_reached_by_the_same_key(self, settings: Any) -> None:
        settings.EMBEDDING_BASE_URL = "https://old.example/v2"
        embedder = clients.embedder_of(self.before)
        assert isinstance(embedder, HttpEmbedder)
        assert embedder.profile == self.before

    def test_a_host_that_no_setting_names_refuses_with_a_sentence(self, settings: Any) -> None:
        settings.EMBEDDING_BASE_URL, settings.EMBEDDING_PREVIOUS_BASE_URL = "https://new.example/v1", ""
        with pytest.raises(EmbeddingError, match="no setting names the address of old.example"):
            async_to_sync(clients.embedder_of(self.before).embed)(["text"])

    def test_the_host_before_gets_its_own_key_alone(self, settings: Any) -> None:
        settings.EMBEDDING_BASE_URL, settings.EMBEDDING_API_KEY = "https://new.example/v1", "new-key"
        settings.EMBEDDING_PREVIOUS_BASE_URL = "https://old.example/v1"
        settings.EMBEDDING_PREVIOUS_API_KEY = "old-key"
        sent: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            sent.append(request)
            return httpx.Response(200, json={"data": [{"index": 0, "embedding": [1, 0, 0, 0]}]})

        async def embed() -> Vectors:
            async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
                return await clients.embedder_of(self.before, http).embed(["text"])

        assert np.allclose(async_to_sync(embed)(), [[1, 0, 0, 0]])
        assert (sent[0].url.host, sent[0].headers["Authorization"]) == ("old.example", "Bearer old-key")
