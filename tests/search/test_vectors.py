"""Vectors for texts that have none: each once, of unit length, in the embedder's profile."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ValidationError
from django.db import connections
from django.utils import timezone

from memoryapp.curation import plan_edit
from memoryapp.curation.topic_writer import put_in, swap
from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors
from memoryapp.insight.browsing.profiles import passages_without_vector
from memoryapp.intake.invariants import violations
from memoryapp.models import (
    CardVector,
    ChatUser,
    EmbeddingProfile,
    Passage,
    PassageVector,
    Person,
    RefusedText,
    Topic,
    TopicVector,
)
from memoryapp.search import items, profiles
from memoryapp.search.profiles import profile_row
from memoryapp.search.vectors import HARMLESS, embed_pending
from tests.conftest import talk
from tests.support.clock import PATIENCE


class Hashing:
    """Returns deterministic unit vectors: each text has its own direction, the same every time."""

    def __init__(self, model: str = "hashing", dimensions: int = 16) -> None:
        self.profile = Profile("test", model, dimensions, 0.1)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        vectors = np.array([self.direction(text) for text in texts], dtype=np.float32)
        return vectors.reshape(len(texts), self.profile.dimensions)

    def direction(self, text: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).normal(size=self.profile.dimensions)
        return vector / np.linalg.norm(vector)


class Failing(Hashing):
    """Fails after its first batch."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.texts:
            raise EmbeddingError("The endpoint is away.")
        return await super().embed(texts)


class Refusing(Hashing):
    """Refuses every batch that contains a text with this word, as endpoints do."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if any(self.word in text for text in texts):
            raise EmbeddingError("The endpoint answered 400: an input is refused.")
        return await super().embed(texts)


class Away(Hashing):
    """Fails, and counts how often it was asked."""

    asked = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += 1
        raise EmbeddingError("The endpoint is away.")


class Short(Hashing):
    """Leaves out the last vector of every reply."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return (await super().embed(texts))[:-1]


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("tea", ["green?", "yes", "black?", "no"]), ("cats", ["how many?", "three"]))


def embed(embedder: Hashing, owner: ChatUser | None = None, batch: int = 256) -> int:
    return async_to_sync(embed_pending)(embedder, owner, batch)


def test_every_passage_and_live_topic_gets_one_vector_and_no_more(topics: list[Topic]) -> None:
    made = embed(Hashing(), batch=2)
    assert made == Passage.objects.count() + 2
    assert PassageVector.objects.count() == Passage.objects.count()
    assert set(TopicVector.objects.values_list("topic", flat=True)) == {topic.pk for topic in topics}
    again = Hashing()
    assert embed(again) == 0
    assert again.texts == []
    assert list(violations()) == []


def test_a_vector_is_that_of_its_own_text(topics: list[Topic]) -> None:
    embedder = Hashing()
    embed(embedder, batch=2)
    for row in PassageVector.objects.select_related("passage"):
        assert np.allclose(row.vector, embedder.direction(row.passage.text), atol=2e-3)


def test_a_topics_vector_is_that_of_its_summary_and_its_log(topics: list[Topic]) -> None:
    embedder = Hashing()
    embed(embedder)
    [text] = [text for text in embedder.texts if text.startswith("Topic Summary: tea\n\nConversation Log:\n[")]
    assert text.count("]: ") == 4
    assert "]: green?\n" in text
    assert np.allclose(TopicVector.objects.get(topic=topics[0]).vector, embedder.direction(text), atol=5e-3)


def test_a_topic_too_long_for_the_model_is_the_unit_mean_of_its_pieces(anna: ChatUser) -> None:
    talk(anna, ("tea", ["word " * 30, "other " * 40, "third " * 50]))
    embedder = Hashing()
    embedder.profile = replace(embedder.profile, most_chars=200)
    embed(embedder)
    pieces = [text for text in embedder.texts if text.startswith("Topic Summary: tea\n\nConversation Log:\n")]
    assert len(pieces) > 3
    assert max(map(len, pieces)) <= 200
    total = np.sum([embedder.direction(text) for text in pieces], axis=0)
    assert np.allclose(TopicVector.objects.get().vector, total / np.linalg.norm(total), atol=5e-3)
    assert list(violations()) == []


def test_another_profile_gets_vectors_of_its_own(topics: list[Topic]) -> None:
    embed(Hashing())
    embed(Hashing("other", 8))
    assert PassageVector.objects.count() == 2 * Passage.objects.count()
    assert set(PassageVector.objects.values_list("profile__model", "dimensions")) == {("hashing", 16), ("other", 8)}


def test_only_the_owner_asked_for_is_embedded(topics: list[Topic], boris: ChatUser) -> None:
    talk(boris, ("dogs", ["any?", "none"]))
    embed(Hashing(), boris)
    assert set(PassageVector.objects.values_list("owner", flat=True)) == {boris.pk}
    assert set(TopicVector.objects.values_list("owner", flat=True)) == {boris.pk}


def test_a_retired_topic_needs_no_vector(anna: ChatUser, topics: list[Topic]) -> None:
    plan = plan_edit(topics[0].owner, topics[0].pk, "tea and more")
    (edited,) = put_in(swap(topics[0].owner, plan, kind="edit", actor="test"))
    embed(Hashing())
    assert set(TopicVector.objects.values_list("topic", flat=True)) == {edited.pk, topics[1].pk}


def test_a_person_gets_a_card_and_a_vector_of_it(topics: list[Topic], anna: ChatUser) -> None:
    petrov = Person.objects.create(owner=anna, display_name="Петров")
    embedder = Hashing()
    embed(embedder)
    row = CardVector.objects.select_related("card").get()
    assert (row.card.person, row.dimensions) == (petrov, 16)
    assert np.allclose(row.vector, embedder.direction(row.card.text), atol=2e-3)
    assert embed(Hashing()) == 0


def test_a_card_that_changes_while_the_model_works_gets_no_vector_of_its_old_text(anna: ChatUser) -> None:
    petrov = Person.objects.create(owner=anna, display_name="Петров")

    class Meanwhile(Hashing):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            if not self.texts:
                petrov.bio = "He retired."
                await petrov.asave()
                await sync_to_async(items.refresh)()
            return await super().embed(texts)

    assert embed(Meanwhile()) == 0
    after = Hashing()
    assert embed(after) == 1
    assert "He retired." in after.texts[0]


def test_what_was_made_before_a_failure_stays_and_the_next_worker_goes_on(topics: list[Topic]) -> None:
    with pytest.raises(EmbeddingError):
        embed(Failing(), batch=1)
    assert PassageVector.objects.count() == 1
    rest = Hashing()
    embed(rest)
    assert len(rest.texts) == Passage.objects.count() - 1 + 2


def test_a_reply_of_the_wrong_size_is_an_error_and_stores_nothing(topics: list[Topic]) -> None:
    with pytest.raises(EmbeddingError):
        embed(Short())
    assert not PassageVector.objects.exists()


@pytest.mark.slow
def test_a_refused_text_keeps_its_vector_from_nobody_else(
    topics: list[Topic], boris: ChatUser, caplog: pytest.LogCaptureFixture
) -> None:
    talk(boris, ("dogs", ["any?", "none"]))
    wordless = Passage.objects.filter(text__contains="green?").count()
    assert embed(Refusing("green?")) == Passage.objects.count() - wordless + 2
    assert not PassageVector.objects.filter(passage__text__contains="green?").exists()
    # The topic's text contains the word as well.
    assert "Texts without a vector, for the model refuses them: 2. The endpoint answered 400" in caplog.text
    patient = Hashing()
    assert embed(patient) == 0, "every sweep asks again for a text that was refused a moment ago"
    assert patient.texts == []
    row = EmbeddingProfile.objects.get()
    assert set(profiles.refused_texts(row).values_list("owner__name", "tries")) == {("anna", 1)}
    assert embed(Refusing("green?")) == 0
    profiles.ask_again(row)
    assert embed(Hashing()) == wordless + 1
    assert not RefusedText.objects.exists()


@pytest.mark.slow
def test_a_text_is_asked_for_again_after_longer_and_longer_waits(topics: list[Topic]) -> None:
    refusing = Refusing("three")
    for wait in (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=1)):
        began = timezone.now()
        embed(refusing)
        refused = RefusedText.objects.get(passage__isnull=False)
        assert began + wait <= refused.retry_at <= timezone.now() + wait
        profiles.ask_again(EmbeddingProfile.objects.get())


def test_a_text_of_nothing_is_refused_without_asking_the_model(topics: list[Topic]) -> None:
    Passage.objects.filter(text__contains="three").update(text=" \n")
    embedder = Hashing()
    assert embed(embedder) == Passage.objects.count() - 1 + 2
    assert all(text.strip() for text in embedder.texts)
    assert RefusedText.objects.get().reason == "It has no text."


@pytest.mark.slow
def test_rubbish_for_a_while_loses_nothing_and_pays_for_nothing_twice(topics: list[Topic]) -> None:
    """Wrong counts, errors and a killed process follow one another; then the next plain call makes the rest."""

    class Faulty(Hashing):
        faults: ClassVar[list[type[BaseException] | None]] = [None, EmbeddingError, SystemExit, None, EmbeddingError]
        asked = 0

        async def embed(self, texts: Sequence[str]) -> Vectors:
            fault = self.faults[Faulty.asked % len(self.faults)]
            Faulty.asked += 1
            if fault:
                raise fault("It failed.")
            return await super().embed(texts)

    paid: list[str] = []
    for _sweep in range(6):
        faulty = Faulty()
        with suppress(EmbeddingError, SystemExit):
            embed(faulty, batch=1)
        paid += [text for text in faulty.texts if text != HARMLESS]
        profiles.ask_again(EmbeddingProfile.objects.get())
    plain = Hashing()
    embed(plain)
    wanted = Passage.objects.count() + 2
    assert PassageVector.objects.count() + TopicVector.objects.count() == wanted
    assert sorted(paid + plain.texts) == sorted({*paid, *plain.texts})
    assert len(paid) + len(plain.texts) == wanted
    assert not RefusedText.objects.exists()
    assert list(violations()) == []


def test_an_endpoint_that_is_away_is_not_asked_for_each_text(topics: list[Topic]) -> None:
    away = Away()
    with pytest.raises(EmbeddingError, match="away"):
        embed(away)
    assert away.asked == 2


@contextmanager
def another_worker(embedder: Hashing) -> Iterator[None]:
    """Makes vectors of the same profile in another process meanwhile."""
    other = connections.create_connection("default")
    key = async_to_sync(profile_row)(embedder.profile).pk
    try:
        with other.cursor() as cursor:
            cursor.execute("SET lock_timeout = '60s'")
            cursor.execute("SELECT pg_advisory_lock(hashtextextended('embed', %s))", [key])
        yield
    finally:
        other.close()


def test_a_second_worker_pays_for_nothing(topics: list[Topic], caplog: pytest.LogCaptureFixture) -> None:
    second = Hashing()
    with another_worker(second):
        assert embed(second) == 0
        assert caplog.text == ""
        assert async_to_sync(embed_pending)(second, wait=timedelta(milliseconds=1)) == 0
        assert "Another process is making vectors" in caplog.text
    assert second.texts == []
    assert async_to_sync(embed_pending)(second, wait=timedelta(seconds=PATIENCE)) == Passage.objects.count() + 2
    with another_worker(second):
        assert embed(second) == 0, "the lock was not given back"


def test_passages_count_as_embedded_in_the_profile_in_use_only(topics: list[Topic]) -> None:
    embed(Hashing())
    everyone = ChatUser.objects.all()
    assert passages_without_vector(everyone, Hashing().profile) == 0
    assert passages_without_vector(everyone, Hashing("other", 8).profile) == Passage.objects.count()
    embed(Hashing("other", 8))
    assert passages_without_vector(everyone, Hashing("other", 8).profile) == 0


def test_two_workers_with_the_same_work_store_it_once(topics: list[Topic]) -> None:
    class Overtaken(Hashing):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            if not self.texts:
                self.texts.append("")
                await embed_pending(Hashing())
            return await super().embed(texts)

    embed(Overtaken())
    assert PassageVector.objects.count() == Passage.objects.count()
    assert TopicVector.objects.count() == 2


def test_a_chat_user_erased_meanwhile_takes_nobody_down(topics: list[Topic], boris: ChatUser) -> None:
    gone = Passage.objects.earliest("pk").pk

    class Erasing(Hashing):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            await Passage.objects.filter(pk=gone).adelete()
            return await super().embed(texts)

    embed(Erasing())
    assert PassageVector.objects.count() == Passage.objects.count()


@pytest.mark.django_db
def test_a_profile_is_one_row_however_often_it_is_used() -> None:
    profile = Profile("test", "hashing", 16, 0.1)
    assert async_to_sync(profile_row)(profile) == async_to_sync(profile_row)(profile)
    assert EmbeddingProfile.objects.get().threshold == 0.1


@pytest.mark.django_db
def test_a_new_profile_begins_with_the_settings_threshold_for_merges(settings: Any) -> None:
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.81
    row = async_to_sync(profile_row)(Profile("test", "hashing", 16, 0.1))
    assert row.consolidation_threshold == 0.81
    row.consolidation_threshold = 1.5
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        row.full_clean()
