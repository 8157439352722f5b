"""The demo memory: its content, and that it loads once, completely, and only into an empty memory."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.contrib.auth import authenticate
from django.utils import timezone

from memoryapp import erasure
from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors
from memoryapp.insight.evaluation.questions import read_questions
from memoryapp.intake import archiving
from memoryapp.models import Artifact, ChatUser, Fact, Message, Operator, Passage, PassageVector, Person, Role, Topic
from memoryapp.upkeep import demo

ANNAS_WORDS = ("Сололаки", "WaniKani", "мениск", "MinIO", "vLLM", "H100", "Петров", "Бублик", "Саркисян", "Nordlys")
BORISES_WORDS = ("Fernlight", "Whitcombe", "Clint", "Nadia", "Brass", "sourdough", "Ark Nova")
RUSSIAN, ENGLISH = demo.CONTENT / "golden_ru.jsonl", demo.CONTENT / "golden_en.jsonl"
LATER = datetime(2027, 5, 1, 12, 0, tzinfo=UTC)


class Stub:
    """An embedder that returns the same vector for every text."""

    profile = Profile("test", "stub", 4, 0.3)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


@pytest.fixture(autouse=True)
def stub_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "embedder", Stub)


def all_text(name: str) -> str:
    everything = [*demo.talks(name), demo.active_session(name, LATER)]
    return "\n".join(talk.summary + "\n" + "\n".join(r.text for r in talk.records) for talk in everything)


def test_anna_has_a_year_to_look_at() -> None:
    talks = demo.talks("anna")
    sizes = [sum(len(record.text) for record in talk.records) for talk in talks]
    assert len(talks) >= 46
    assert sum(len(talk.records) for talk in talks) >= 640
    assert max(sizes) > 25_000, "no topic is long enough to be shown as an excerpt"
    assert any(len(talk.records) <= 5 for talk in talks)
    assert any(record.forwarded_from == "Петров" for talk in talks for record in talk.records)


@pytest.mark.parametrize("name", demo.AUTHORS)
def test_messages_have_their_own_ids_and_follow_one_another(name: str) -> None:
    talks = [*demo.talks(name), demo.active_session(name, LATER)]
    ids = [record.external_id for talk in talks for record in talk.records]
    times = [record.sent_at for talk in talks for record in talk.records]
    assert len(ids) == len(set(ids))
    assert times == sorted(times)
    assert all(talk.summary for talk in talks[:-1])
    for before, after in zip(talks, talks[1:], strict=False):
        assert after.records[0].sent_at - before.records[-1].sent_at >= timedelta(hours=1)


@pytest.mark.parametrize(("name", "words"), [("boris", ANNAS_WORDS), ("anna", BORISES_WORDS)])
def test_nothing_of_one_memory_is_in_the_other(name: str, words: Sequence[str]) -> None:
    text = all_text(name).casefold()
    assert [word for word in words if word.casefold() in text] == []


@pytest.mark.parametrize(
    ("path", "unanswerable"),
    [(demo.QUESTIONS, 0), (RUSSIAN, 14), (ENGLISH, 14)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_question_is_answered_by_messages_there_are(path: Path, unanswerable: int) -> None:
    read = read_questions(path)
    ids = {name: {record.external_id for talk in demo.talks(name) for record in talk.records} for name in demo.AUTHORS}
    assert read.faults == ()
    assert [(q.qid, m) for q in read.asked for m in q.messages if m not in ids[q.user]] == []
    assert sum(not question.is_answerable for question in read.asked) == unanswerable
    assert len(read.asked) - unanswerable >= 40


def test_the_questions_are_of_many_kinds_and_asked_once() -> None:
    asked = [*read_questions(RUSSIAN).asked, *read_questions(ENGLISH).asked]
    kinds = {"who", "when", "date", "negation", "paraphrase", "fact", "several", "cross-language"}
    assert {question.category for question in asked if question.is_answerable} == kinds
    assert len({question.question for question in asked}) == len(asked)


def test_the_active_session_ended_a_moment_ago() -> None:
    records = demo.active_session("anna", LATER).records
    assert len(records) >= 10
    assert records[-1].sent_at == LATER - demo.SILENCE


def test_a_clock_before_the_content_leaves_the_active_session_after_all_topics() -> None:
    records = demo.active_session("anna", datetime(2020, 1, 1, tzinfo=UTC)).records
    assert records[0].sent_at > demo.talks("anna")[-1].records[-1].sent_at


@pytest.mark.django_db(transaction=True)
def test_a_memory_whose_chat_users_were_erased_stays_empty(anna: ChatUser) -> None:
    erasure.finish(erasure.begin_user(anna, "ada"))
    assert not demo.load()
    assert not ChatUser.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db
def test_an_empty_memory_is_filled_once() -> None:
    assert demo.load()
    anna = ChatUser.objects.get(name="anna")
    assert Topic.objects.of(anna).live().count() == len(demo.talks("anna"))
    assert Message.objects.of(anna).active().count() == len(demo.active_session("anna", LATER).records)
    assert Person.objects.filter(owner=anna).count() >= 14
    assert Fact.objects.filter(owner=anna, topic__isnull=False).count() >= 35
    assert PassageVector.objects.count() == Passage.objects.count() > 0
    before = Message.objects.count()
    assert not demo.load()
    assert Message.objects.count() == before


@pytest.mark.slow
@pytest.mark.django_db
def test_every_artifact_hangs_on_the_message_that_brought_it() -> None:
    demo.load()
    artifacts = Artifact.objects.select_related("message")
    assert artifacts.count() >= 11
    for artifact in artifacts:
        assert artifact.message is not None
        assert artifact.name in [file["name"] for file in artifact.message.metadata["attachments"]]


@pytest.mark.slow
@pytest.mark.django_db
def test_the_demo_operator_can_log_in_and_see_everything() -> None:
    demo.load()
    user = authenticate(username=demo.LOGIN, password=demo.PASSWORD)
    assert user is not None
    assert user.is_staff
    assert Operator.objects.get(user=user).role == Role.ADMIN


@pytest.mark.slow
@pytest.mark.django_db
def test_a_load_that_was_killed_leaves_nothing_and_the_next_one_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    def die_at_boris(owner: ChatUser, *rest: Any, **named: Any) -> list[Topic]:
        if owner.name == "boris":
            raise KeyboardInterrupt
        return archiving.put_topics(owner, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(demo, "put_topics", die_at_boris)
        with pytest.raises(KeyboardInterrupt):
            demo.load()
    assert not ChatUser.objects.exists()
    assert not Message.objects.exists()
    assert demo.load()
    assert set(ChatUser.objects.values_list("name", flat=True)) == set(demo.AUTHORS)


@pytest.mark.slow
@pytest.mark.django_db
def test_an_embedding_endpoint_that_is_down_does_not_keep_the_demo_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down(Stub):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            raise EmbeddingError("unreachable")

    monkeypatch.setattr(demo, "embedder", Down)
    assert demo.load()
    assert Topic.objects.exists()


@pytest.mark.django_db
def test_a_memory_somebody_uses_is_left_alone() -> None:
    ChatUser.objects.create(name="anna", display_name="Another Anna")
    assert not demo.load()
    assert ChatUser.objects.get().display_name == "Another Anna"
    assert not Message.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db
def test_the_active_session_is_still_going_on_after_the_load() -> None:
    demo.load()
    last = Message.objects.of(ChatUser.objects.get(name="anna")).active().in_order().last()
    assert last is not None
    assert timezone.now() - last.sent_at < timedelta(hours=1)
