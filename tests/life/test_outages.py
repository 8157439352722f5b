"""Models that fail for an hour or answer invalid text for a day: what it costs, what people see, and that everything
recovers. The clock is simulated: stored times are moved back, as if the time had passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from memoryapp.curation import extraction
from memoryapp.curation.suggestions import consolidation
from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, Reply
from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import (
    AgentCall,
    ChatUser,
    EmbeddingProfile,
    Fact,
    Finding,
    Message,
    Person,
    RefusedText,
    TopicEdit,
    UnreadTopic,
)
from memoryapp.platform.llm import clients
from memoryapp.search import profiles
from memoryapp.upkeep import tasks
from memoryapp.upkeep.pipeline.shown import PipelineStage, stages
from tests.intake.test_archiving import message_record
from tests.life.endpoint import ARCHIVIST, MERGER, SPLITTER, reply
from tests.search.test_vectors import Hashing

EACH = 8

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


class Models:
    """Chat models and embedders that all work, fail (``down``) or answer invalid text; ``asked`` counts by model."""

    def __init__(self) -> None:
        self.mood = "well"
        self.asked: Counter[str] = Counter()

    def open_chat(self, model: str) -> AbstractAsyncContextManager[Any]:
        return self._opened(model)

    @asynccontextmanager
    async def _opened(self, model: str) -> AsyncIterator[_Chat]:
        yield _Chat(self, model)

    def embedder_of(self, profile: Profile, http: Any = None) -> Hashing:
        return _Embedder(self, profile)


class _Chat:
    def __init__(self, models: Models, model: str) -> None:
        self._models, self.model = models, model

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self._models.asked[self.model] += 1
        if self._models.mood == "down":
            raise LLMError("cannot be reached")
        text = "Sorry."
        if self._models.mood == "well":
            answered = reply({"model": self.model, "messages": request.messages})
            text = answered["choices"][0]["message"]["content"]
        yield Reply(text=text, message={"role": "assistant", "content": text}, usage=Usage(100, 10, 0.001))


class _Embedder(Hashing):
    """Places all texts near one another, so that there is something to judge."""

    def __init__(self, models: Models, profile: Profile) -> None:
        super().__init__(profile.model, profile.dimensions)
        self.profile, self._models = profile, models

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self._models.asked["vectors"] += 1
        if self._models.mood == "down":
            raise EmbeddingError("The endpoint is away.")
        vectors = await super().embed(texts)
        vectors[:, 0] += 1.2
        return vectors / (vectors**2).sum(axis=1, keepdims=True) ** 0.5


@pytest.fixture
def models(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Models:
    made = Models()
    settings.LLM_BASE_URL = "http://model.invalid"
    settings.SPLITTER_MODEL, settings.MERGER_MODEL, settings.ARCHIVIST_MODEL = SPLITTER, MERGER, ARCHIVIST
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.5
    monkeypatch.setattr(clients, "open_chat", made.open_chat)
    monkeypatch.setattr(clients, "embedder_of", made.embedder_of)
    return made


@pytest.fixture
def owner(db: None) -> ChatUser:
    return ChatUser.objects.create(
        name="anna", consolidation="automatic", extraction="automatic", topic_messages=EACH // 2
    )


def talk(owner: ChatUser, day: int) -> None:
    """Adds a session of a day of its own, which ended long ago."""
    first = day * EACH
    records = [message_record(first + at, minutes=day * 1_440 + at) for at in range(EACH)]
    add_messages(owner, records)


def sweep() -> None:
    """Runs the sweeps that beat sends within a minute."""
    for task in (tasks.archive_due, tasks.embed_pending, tasks.suggest_due, tasks.consolidate_due, tasks.extract_due):
        task()


def pass_time(time: timedelta) -> None:
    AgentCall.objects.update(at=F("at") - time)
    UnreadTopic.objects.update(due_at=F("due_at") - time)
    RefusedText.objects.update(retry_at=F("retry_at") - time)
    EmbeddingProfile.objects.update(rests_until=F("rests_until") - time)


@contextmanager
def mood(models: Models, mood: str) -> Iterator[Counter[str]]:
    """Returns what was asked while the models behaved like that."""
    before, models.mood = Counter(models.asked), mood
    asked: Counter[str] = Counter()
    yield asked
    asked.update(models.asked - before)
    models.mood = "well"


def shown(owner: ChatUser) -> dict[str, PipelineStage]:
    found = stages(ChatUser.objects.all(), clients.profile(), now=timezone.now(), owner=owner)
    return {stage.name: stage for stage in found}


def three_days_compared(owner: ChatUser) -> None:
    """Archives and embeds the conversations of three days and suggests merges, which no model has judged yet."""
    for day in range(3):
        talk(owner, day)
    tasks.archive_due()
    tasks.embed_pending()
    tasks.suggest_due()


def check_all_done(owner: ChatUser) -> None:
    """Lets some days pass with working models; then everything is embedded, compared and read, merged topics too."""
    for _hours in range(12):
        pass_time(timedelta(hours=6))
        sweep()
        if not any(stage.waiting for stage in shown(owner).values()) and profiles.is_complete(profiles.serving()):
            break
    assert not Message.objects.active().exists()
    assert profiles.is_complete(profiles.serving())
    assert not consolidation.unjudged().exists()
    assert (extraction.backlog(owner).unread, extraction.backlog(owner).failed) == (0, 0)
    assert {name: stage.waiting for name, stage in shown(owner).items() if stage.waiting} == {}
    answered = AgentCall.objects.filter(outcome="")
    assert answered.count() == answered.values("agent", "key").distinct().count()
    assert list(violations()) == []


def test_an_endpoint_that_is_away_for_an_hour_is_asked_seldom_and_all_completes(
    owner: ChatUser, models: Models
) -> None:
    three_days_compared(owner)
    assert consolidation.unjudged().exists()
    talk(owner, 3)
    tasks.archive_due()
    talk(owner, 4)
    with mood(models, "down") as asked:
        for _minute in range(60):
            sweep()
            pass_time(timedelta(minutes=1))
    assert asked[SPLITTER] <= 8
    assert asked[MERGER] <= 5
    assert asked[ARCHIVIST] <= 40
    # The segmenter asks once in each sweep of sessions; the embedding, with two requests each time, soon every ten
    # minutes.
    assert 60 < asked["vectors"] <= 60 + 12 * 2
    seen = shown(owner)
    away = seen["embed"].away
    assert away is not None
    assert away.fault == "The endpoint is away."
    assert Client().get("/readyz").json()["embedding"] == f"no answer to the last {away.failures} requests"
    assert (seen["archive"].waiting, seen["extract"].waiting, seen["consolidate"].waiting > 0) == (EACH, 8, True)
    assert {fault.code for fault in seen["extract"].faults if fault.code} == {"llm_error"}
    assert any("away" in fault.why for fault in seen["archive"].faults)
    assert not Fact.objects.exists()
    check_all_done(owner)
    assert not shown(owner)["extract"].is_at_work
    assert shown(owner)["embed"].away is None
    assert Client().get("/readyz").json()["embedding"] == "ok"


def test_after_a_clock_was_a_year_ahead_while_the_models_were_away_all_completes(
    owner: ChatUser, models: Models
) -> None:
    three_days_compared(owner)
    talk(owner, 3)
    with mood(models, "down"):
        for _minute in range(10):
            sweep()
            pass_time(timedelta(minutes=1))
    pass_time(-timedelta(days=365))
    check_all_done(owner)


def test_a_model_that_was_away_is_asked_at_once_when_a_person_wants_it_and_often_when_it_answers_at_times(
    owner: ChatUser, models: Models, as_admin: Client
) -> None:
    talk(owner, 0)
    tasks.archive_due()
    with mood(models, "down") as asked:
        for _sweep in range(9):
            pass_time(profiles.LONGEST_REST)
            tasks.embed_pending()
        for _sweep in range(9):
            tasks.embed_pending()
    assert asked["vectors"] == 9 * 2
    row = profiles.serving()
    assert row.rests_until is not None
    assert row.rests_until - timezone.now() > profiles.LONGEST_REST / 2
    assert "It is asked again at" in as_admin.get("/pipeline/").content.decode()
    as_admin.post(f"/embedding/{row.pk}/", {"do": "retry"})
    tasks.embed_pending()
    assert profiles.is_complete(profiles.serving())
    talk(owner, 1)
    tasks.archive_due()
    with mood(models, "down"):
        tasks.embed_pending()
    row.refresh_from_db()
    assert row.failures == 1


def test_a_model_that_talks_rubbish_for_a_day_costs_little_and_nothing_of_it_is_stored(
    owner: ChatUser, models: Models
) -> None:
    with mood(models, "rubbish") as asked:
        for hour in range(24):
            if hour % 4 == 0:
                talk(owner, hour // 4)
            sweep()
            pass_time(timedelta(hours=1))
    questions = AgentCall.objects.values_list("agent", "outcome")
    assert {outcome for _agent, outcome in questions} == {"parse_error"}
    # Each question is asked at most twice; each topic and pair is asked about once, sessions a few times.
    topics = TopicEdit.objects.filter(kind="archive").count()
    assert asked[SPLITTER] <= 2 * topics
    assert asked[ARCHIVIST] <= 2 * (topics + 3)
    assert asked[MERGER] <= 2 * Counter(agent for agent, _outcome in questions)["merger"] <= 2 * 24
    assert [model.objects.count() for model in (Fact, Person, Finding)] == [0, 0, 0]
    assert set(TopicEdit.objects.values_list("kind", flat=True)) == {"archive"}
    assert list(violations()) == []
    assert any(fault.topic for fault in shown(owner)["extract"].faults)
    talk(owner, 9)
    extraction.retry(extraction.failed(owner))
    check_all_done(owner)
    assert TopicEdit.objects.filter(kind="archive", call__outcome="").exists()
    assert Finding.objects.exists()
