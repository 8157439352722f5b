"""Messages come in and sessions are archived: nothing is lost or doubled, and pages show what cut a topic."""

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.postgres.search import SearchQuery
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors
from memoryapp.engine.memory import MessageContent, TopicDraft
from memoryapp.importers import MessageRecord
from memoryapp.intake import archiving, cutters
from memoryapp.intake.archiving import AlreadyArchived, IngestionError, archive, put_topics
from memoryapp.intake.cutters import Cut, Cutter, Segmenter
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import Added, add_messages
from memoryapp.memory.sessions import Moment, SessionLimits, cut_sessions, limits
from memoryapp.models import (
    ChatUser,
    Message,
    Passage,
    PassageMessage,
    Topic,
    TopicEdit,
    TopicMessage,
    TopicVector,
    Work,
)
from memoryapp.platform import work
from memoryapp.platform.llm import clients
from memoryapp.platform.work import ARCHIVE
from tests.search.test_vectors import Hashing
from tests.support.browsing import get
from tests.support.clock import PATIENCE

HOUR = timedelta(hours=1)
BEGAN = datetime(2025, 7, 25, 9, 0, tzinfo=UTC)


def message_record(number: int, text: str = "", *, minutes: float | None = None, **fields: Any) -> MessageRecord:
    sent_at = BEGAN + timedelta(minutes=number if minutes is None else minutes)
    role = "assistant" if number % 2 else "user"
    return MessageRecord("", f"m{number}", role, role, sent_at, text or f"message {number}", **fields)


class NoEmbedder:
    """For segmenters that need no vectors."""

    profile = Profile("test", "none", 2, 0.0)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingError("There is no model.")


def pairs(messages: Sequence[MessageContent]) -> list[TopicDraft]:
    return [
        TopicDraft(f"about {messages[at].text}", tuple(message.id for message in messages[at : at + 2]))
        for at in range(0, len(messages), 2)
    ]


def in_pairs(messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
    """A cutter that needs no model: topics of two messages each."""
    return Cut(pairs(messages))


def archived(owner: ChatUser, cutter: Cutter = in_pairs, *, now: bool = True, most: int = 400) -> archiving.Archived:
    return archive(owner, cutter, SessionLimits(HOUR, most, 25_000), now=now)


def ids(owner: ChatUser) -> list[int]:
    return list(Message.objects.of(owner).in_order().values_list("pk", flat=True))


class TestMessages:
    def test_the_same_messages_again_add_nothing(self, anna: ChatUser) -> None:
        records = [message_record(number) for number in range(5)]
        assert add_messages(anna, records) == Added(5, 0)
        assert add_messages(anna, [*records, message_record(5)]) == Added(1, 5)
        assert Message.objects.of(anna).count() == 6

    def test_an_id_that_means_another_message_is_reported_and_the_first_stays(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(1, "first")])
        added = add_messages(
            anna, [message_record(1, "edited", line=7), message_record(2, "a"), message_record(2, "b", line=9)]
        )
        assert (added.added, added.skipped) == (1, 0)
        assert [item.line for item in added.rejected] == [7, 9]
        assert set(Message.objects.of(anna).values_list("text", flat=True)) == {"first", "a"}

    def test_the_same_id_of_another_chat_user_is_another_message(self, anna: ChatUser, boris: ChatUser) -> None:
        add_messages(anna, [message_record(1, "hers")])
        assert add_messages(boris, [message_record(1, "his")]).added == 1

    def test_messages_of_one_moment_keep_the_order_of_the_file(self, anna: ChatUser) -> None:
        add_messages(anna, (message_record(number, minutes=0) for number in range(2500)))
        texts = Message.objects.of(anna).in_order().values_list("text", flat=True)
        assert list(texts) == [f"message {number}" for number in range(2500)]


@pytest.mark.django_db(transaction=True)
def test_two_imports_of_the_same_messages_at_once_store_each_once() -> None:
    anna = ChatUser.objects.create(name="anna")
    records = [message_record(number) for number in range(1500)]
    results: list[Added] = []

    def work(part: list[MessageRecord]) -> None:
        results.append(add_messages(anna, part))
        connections.close_all()

    threads = [threading.Thread(target=work, args=(part,)) for part in (records, records[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(result.added for result in results) == 1500
    assert sum(result.skipped for result in results) == 1500


class TestSessions:
    def test_silence_a_full_session_and_a_label_each_end_a_session(self) -> None:
        def moment(number: int, minutes: int, label: str = "") -> Moment:
            return Moment(number, BEGAN + timedelta(minutes=minutes), label)

        messages = [moment(1, 0), moment(2, 59), moment(3, 119), moment(4, 120), moment(5, 121), moment(6, 1, "b")]
        sessions = cut_sessions(messages, interval=HOUR, most=2)
        assert [[message.id for message in session.messages] for session in sessions] == [[1, 2], [6], [3, 4], [5]]
        assert [session.closed for session in sessions] == [True, False, True, False]

    def test_between_people_only_a_longer_pause_ends_one(self) -> None:
        """Measured on chats between people: an hour of silence cut 219 sessions into 763 topics."""

        def stream(label: str, *roles: str) -> list[Moment]:
            hours = (0, 3, 9)
            return [Moment(n, BEGAN + hours[n] * HOUR, label, False, role) for n, role in enumerate(roles)]

        messages = [
            *stream("assistant", "user", "assistant", "peer"),
            *stream("notes", "user", "user", "user"),
            *stream("people", "user", "peer", "peer"),
        ]
        sessions = cut_sessions(messages, interval=HOUR, most=400, between_people=6 * HOUR)
        found = [(len(session.messages), session.messages[0].label) for session in sessions]
        assert sorted(found) == [(1, "assistant")] * 3 + [(1, "notes")] * 3 + [(1, "people"), (2, "people")]
        last = sessions[-1]
        assert {session.messages[0].label: session.interval for session in sessions} == {
            "assistant": HOUR, "notes": HOUR, "people": 6 * HOUR,
        }  # fmt: skip
        assert last.due_at == last.messages[-1].sent_at + last.interval

    def test_a_chat_between_people_waits_for_an_answer_of_hours(self, anna: ChatUser) -> None:
        now = timezone.now()
        for label, roles in (("people", ("user", "peer")), ("assistant", ("user", "assistant"))):
            add_messages(
                anna,
                [
                    MessageRecord(
                        "", f"{label}{n}", role, role, now - timedelta(minutes=120 - n), f"said {n}", session=label
                    )
                    for n, role in enumerate(roles)
                ],
            )
        assert archive(anna, in_pairs, limits(anna)).sessions == 1
        assert set(Message.objects.active().values_list("session", flat=True)) == {"people"}
        Message.objects.active().update(sent_at=now - timedelta(hours=7))
        assert archive(anna, in_pairs, limits(anna)).sessions == 1

    def test_a_full_session_does_not_end_with_a_question(self) -> None:
        messages = [Moment(n, BEGAN + timedelta(minutes=n), "", n in (2, 3)) for n in range(1, 7)]
        sessions = cut_sessions(messages, interval=HOUR, most=2)
        assert [[message.id for message in session.messages] for session in sessions] == [[1, 2, 3, 4], [5, 6]]

    def test_a_session_of_nothing_but_questions_ends_all_the_same(self) -> None:
        messages = [Moment(n, BEGAN + timedelta(minutes=n), "", True) for n in range(30)]
        assert len(cut_sessions(messages, interval=HOUR, most=2)) == 2

    @given(pauses=st.lists(st.tuples(st.integers(0, 200), st.sampled_from("ab")), max_size=40), most=st.integers(2, 7))
    def test_every_message_is_in_one_session_whatever_the_pauses(
        self, pauses: list[tuple[int, str]], most: int
    ) -> None:
        clock, messages = 0, []
        for number, (pause, label) in enumerate(pauses):
            clock += pause
            messages.append(Moment(number, BEGAN + timedelta(minutes=clock), label))
        streams = sorted(messages, key=lambda message: message.label)
        sessions = cut_sessions(streams, interval=HOUR, most=most)
        assert sorted(message for session in sessions for message in session.messages) == messages
        for session in sessions:
            assert len(session.messages) <= most
            assert len({message.label for message in session.messages}) == 1
            times = [message.sent_at for message in session.messages]
            assert all(later - earlier < HOUR for earlier, later in zip(times, times[1:], strict=False))


class TestArchive:
    def test_a_session_becomes_topics_that_say_what_they_hold(self, anna: ChatUser) -> None:
        add_messages(
            anna,
            [message_record(0, "Привет"), message_record(1, "ok"), message_record(2, "bye"), message_record(3, "🙂")],
        )
        assert archived(anna) == archiving.Archived(sessions=1, topics=2, messages=4)
        first, second = Topic.objects.of(anna).order_by("id")
        assert (first.summary, first.message_count, first.size_chars) == ("about Привет", 2, 8)
        assert (first.started_at, first.ended_at) == (BEGAN, BEGAN + timedelta(minutes=1))
        assert second.size_chars == 4
        edit = TopicEdit.objects.get()
        assert edit.kind == TopicEdit.Kind.ARCHIVE
        assert set(edit.topics.all()) == {first, second}
        assert not Message.objects.active().exists()
        assert list(violations()) == []

    def test_passages_can_be_found_by_their_stems(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(0, "Кошки живут в доме?"), message_record(1, "Three cats lived there.")])
        archived(anna)
        for word in ("кошка", "cat"):
            assert Passage.objects.filter(owner=anna, terms=SearchQuery(word, config="russian")).exists()
        assert PassageMessage.objects.values("message").distinct().count() == 2

    def test_what_may_still_go_on_is_left_alone(self, anna: ChatUser) -> None:
        minutes = (timezone.now() - BEGAN).total_seconds() / 60
        add_messages(
            anna,
            [
                message_record(0),
                message_record(1),
                message_record(2, minutes=minutes - 30),
                message_record(3, minutes=minutes - 1),
            ],
        )
        assert archived(anna, now=False).messages == 2
        assert archived(anna, now=False).messages == 0
        assert archived(anna, now=True).messages == 2

    def test_a_full_session_is_archived_while_the_talk_goes_on(self, anna: ChatUser) -> None:
        minutes = (timezone.now() - BEGAN).total_seconds() / 60
        add_messages(anna, [message_record(number, minutes=minutes - 10 + number) for number in range(5)])
        assert archived(anna, now=False, most=2).messages == 4

    def test_late_messages_are_a_session_of_their_own(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(0), message_record(4)])
        archived(anna)
        add_messages(anna, [message_record(2)])
        assert archived(anna) == archiving.Archived(sessions=1, topics=1, messages=1)
        assert list(violations()) == []

    def test_nothing_is_archived_twice(self, anna: ChatUser) -> None:
        sizes: list[int] = []

        def counting(messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
            sizes.append(len(messages))
            return in_pairs(messages, limits)

        add_messages(anna, [message_record(number) for number in range(4)])
        archived(anna, counting)
        assert archived(anna, counting) == archiving.Archived(0, 0, 0)
        assert sizes == [4]

    def test_a_model_that_fails_in_the_middle_loses_and_repeats_nothing(self, anna: ChatUser) -> None:
        def failing(messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
            if messages[0].text == "message 2":
                raise EmbeddingError("There is no model.")
            return in_pairs(messages, limits)

        def whole(messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
            return Cut([TopicDraft("all", tuple(message.id for message in messages))])

        add_messages(
            anna, [message_record(0), message_record(1), message_record(2, minutes=600), message_record(3, minutes=601)]
        )
        with pytest.raises(EmbeddingError):
            archived(anna, failing)
        assert Message.objects.of(anna).active().count() == 2
        assert archived(anna, whole) == archiving.Archived(sessions=1, topics=1, messages=2)
        assert list(violations()) == []

    def test_a_splitter_that_forgets_a_message_changes_nothing(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(0), message_record(1), message_record(2)])
        with pytest.raises(IngestionError):
            archived(anna, lambda messages, limits: in_pairs(messages[:-1], limits))
        assert not Topic.objects.exists()

    def test_a_topic_is_no_longer_than_the_settings_say(self, anna: ChatUser, settings: Any) -> None:
        settings.SPLIT_THRESHOLD_CHARS = 1_000
        add_messages(anna, [message_record(number, "tea " * 60) for number in range(16)])
        archive(anna, Segmenter(anna, Hashing()), limits(anna), now=True)
        assert max(Topic.objects.values_list("size_chars", flat=True)) <= 1_000
        assert list(violations()) == []

    def test_messages_that_somebody_else_archives_meanwhile_stay_theirs(self, anna: ChatUser) -> None:
        def overtaken(messages: Sequence[MessageContent], limits: SessionLimits) -> Cut:
            put_topics(anna, [TopicDraft("theirs", (messages[0].id,))], actor="other")
            return in_pairs(messages, limits)

        add_messages(anna, [message_record(0), message_record(1)])
        assert archived(anna, overtaken).topics == 0
        assert Topic.objects.get().summary == "theirs"
        assert Message.objects.of(anna).active().count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_second_worker_on_the_same_chat_user_stands_back() -> None:
    anna = ChatUser.objects.create(name="anna")
    add_messages(anna, [message_record(0), message_record(1)])
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(hashtextextended('archive', %s))", [anna.pk])
        assert archived(anna) == archiving.Archived(0, 0, 0, busy=True)
    finally:
        other.close()
    assert (
        archive(anna, in_pairs, SessionLimits(HOUR, 400, 25_000), now=True, wait=timedelta(seconds=PATIENCE)).messages
        == 2
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
        assert cursor.fetchone() == (0,)


class TestPutTopics:
    @pytest.mark.parametrize("shape", [((0, 1), (1, 2)), ((0, 0),), ((0, 1), ())])
    def test_drafts_that_break_the_law_change_nothing(self, anna: ChatUser, shape: tuple[tuple[int, ...], ...]) -> None:
        add_messages(anna, [message_record(number) for number in range(3)])
        pks = ids(anna)
        with pytest.raises(IngestionError):
            put_topics(anna, [TopicDraft("x", tuple(pks[at] for at in part)) for part in shape], actor="test")
        assert not Topic.objects.exists()
        assert not TopicMessage.objects.exists()

    def test_messages_of_a_topic_or_of_another_chat_user_cannot_be_taken(self, anna: ChatUser, boris: ChatUser) -> None:
        add_messages(anna, [message_record(0)])
        add_messages(boris, [message_record(0)])
        with pytest.raises(AlreadyArchived):
            put_topics(anna, [TopicDraft("x", (*ids(anna), *ids(boris)))], actor="test")
        put_topics(anna, [TopicDraft("x", tuple(ids(anna)))], actor="test")
        with pytest.raises(AlreadyArchived):
            put_topics(anna, [TopicDraft("y", tuple(ids(anna)))], actor="test")

    def test_a_topic_may_hold_messages_from_here_and_there(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(number) for number in range(3)])
        one, two, three = ids(anna)
        made = put_topics(anna, [TopicDraft("ends", (three, one)), TopicDraft("middle", (two,))], actor="test")
        assert (made[0].started_at, made[0].ended_at) == (BEGAN, BEGAN + timedelta(minutes=2))
        assert list(violations()) == []

    def test_the_number_of_queries_does_not_grow_with_the_topics(
        self, anna: ChatUser, django_assert_max_num_queries: Any
    ) -> None:
        add_messages(anna, [message_record(number) for number in range(200)])
        with django_assert_max_num_queries(24):
            put_topics(anna, [TopicDraft("x", (number,)) for number in ids(anna)], actor="test")


class TestCommand:
    @pytest.fixture
    def hashing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def segment(messages: Sequence[MessageContent], *rest: object) -> list[TopicDraft]:
            return pairs(messages)

        monkeypatch.setattr(clients, "embedder_of", lambda of: Hashing())
        monkeypatch.setattr(cutters, "segment", segment)

    @pytest.mark.slow
    def test_archiving_now_makes_topics_and_their_vectors(
        self, anna: ChatUser, boris: ChatUser, hashing: None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for owner in (anna, boris):
            add_messages(owner, [message_record(0), message_record(1), message_record(2)])
        call_command("archive", "--now", "--user", "anna", "--json")
        assert json.loads(capsys.readouterr().out) == {"sessions": 1, "topics": 2, "messages": 3}
        assert TopicVector.objects.filter(owner=anna).count() == 2
        call_command("archive", "--now")
        assert capsys.readouterr().out == "Messages archived: 3, of sessions: 1, into new topics: 2.\n"
        assert TopicVector.objects.count() == 4
        assert list(violations()) == []

    def test_vectors_that_a_killed_run_left_out_are_made_by_the_next(self, anna: ChatUser, hashing: None) -> None:
        add_messages(anna, [message_record(0), message_record(1)])
        archived(anna)
        call_command("archive")
        assert TopicVector.objects.count() == 1

    def test_a_name_nobody_has_is_one_sentence(self, hashing: None, db: None) -> None:
        with pytest.raises(CommandError, match="There is no chat user “nobody”"):
            call_command("archive", "--user", "nobody")

    def test_a_model_that_is_away_is_one_sentence(
        self, anna: ChatUser, hashing: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clients, "embedder_of", lambda of: NoEmbedder())
        add_messages(anna, [message_record(0)])
        with pytest.raises(CommandError, match=r"There is no model\."):
            call_command("archive", "--now")


# A chat user's settings, its active sessions with their countdown, and what cut a topic, as pages show them.


DEFAULTS = {"silence_seconds": "", "session_messages": "", "topic_messages": ""}
SENT = {**DEFAULTS, "consolidation": "suggest", "extraction": "review"}


def add_talk(owner: ChatUser, minutes_ago: float, *texts: str, role: str = "user", session: str = "") -> None:
    begun = Message.objects.of(owner).count()
    at = timezone.now() - timedelta(minutes=minutes_ago)
    add_messages(
        owner,
        [
            MessageRecord("", f"a{begun + place}", role, role, at, text, session=session)
            for place, text in enumerate(texts)
        ],
    )


def settings_page(owner: ChatUser) -> str:
    return f"/memory/{owner.pk}/settings/"


class TestMemorySettings:
    def test_what_is_saved_is_what_the_form_shows_again(self, anna: ChatUser, as_admin: Client) -> None:
        sent = {**SENT, "silence_seconds": "6h", "topic_messages": "4", "consolidation": "automatic"}
        assert as_admin.post(settings_page(anna), sent).status_code == 302
        anna.refresh_from_db()
        assert (anna.silence_seconds, anna.session_messages, anna.topic_messages) == (21_600, None, 4)
        assert (anna.consolidation, anna.extraction) == ("automatic", "review")
        page = get(as_admin, settings_page(anna))
        assert 'value="6h"' in page
        assert "400, as for everybody" in page
        assert as_admin.post(settings_page(anna), SENT).status_code == 302
        anna.refresh_from_db()
        assert (anna.silence_seconds, anna.topic_messages) == (None, None)

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            ({"silence_seconds": "soon"}, "Write a number and a unit: 45m, 6h or 2d."),
            ({"silence_seconds": "31d"}, "It must be between 1m and 30d."),
            ({"silence_seconds": "9" * 19 + "d"}, "Write a number and a unit"),
            ({"session_messages": "1"}, "Write a whole number from 2 to 10000"),
            ({"session_messages": "many"}, "Write a whole number from 2 to 10000"),
            ({"topic_messages": "0"}, "Write a whole number from 1 to 1000"),
            ({"session_messages": "5", "topic_messages": "6"}, "A topic cannot need more messages than a session has."),
            ({"consolidation": "always"}, "There is no such choice."),
        ],
    )
    def test_bad_input_is_one_sentence_and_saves_nothing(
        self, anna: ChatUser, as_admin: Client, wrong: dict[str, str], sentence: str
    ) -> None:
        answer = as_admin.post(settings_page(anna), {**SENT, "extraction": "off", **wrong})
        assert answer.status_code == 422
        page = answer.content.decode()
        assert sentence in page
        assert f'value="{next(iter(wrong.values()))}"' in page or "consolidation" in wrong
        anna.refresh_from_db()
        assert anna.extraction == "review"


class TestSessionsOnPages:
    def test_after_archive_now_the_panel_follows_the_work_until_nothing_is_left(
        self, anna: ChatUser, as_admin: Client
    ) -> None:
        add_talk(anna, 1, "Tea?", "Green.")
        address = f"/memory/{anna.pk}/work/"
        as_admin.post(address)

        def panel() -> str:
            headers = {"HX-Request": "true", "HX-Target": "sessions", "HX-Current-URL": "/memory/"}
            return as_admin.get(address, headers=headers).content.decode()

        asked = panel()
        assert "The worker begins within seconds." in asked
        assert "every 2s" in asked
        assert "Archive now" not in asked
        with work.tracked(anna, ARCHIVE) as steps:
            steps.reached(1, 0.5)
            steps.write(Work.State.GOING_ON)
            assert "50 %" in panel()
            put_topics(
                anna,
                [TopicDraft("Tea", tuple(Message.objects.in_order().values_list("pk", flat=True)))],
                actor="archive",
            )
        done = panel()
        assert "Every message is in a topic." in done
        assert "hx-trigger" not in done

    def test_a_failure_is_shown_with_the_button(self, anna: ChatUser, as_admin: Client) -> None:
        add_talk(anna, 1, "Tea?")
        with pytest.raises(RuntimeError), work.tracked(anna, ARCHIVE):
            raise RuntimeError("The embedder is away.")
        page = get(as_admin, f"/memory/{anna.pk}/work/")
        assert "The embedder is away." in page
        assert "Archive now" in page
