"""Background work: rows that show its progress, who joins it, and a clock that was ahead."""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.utils import timezone

from memoryapp import erasure
from memoryapp.celery import app
from memoryapp.curation import suggestions
from memoryapp.engine.embeddings import EmbeddingError, Vectors
from memoryapp.engine.notes import Note
from memoryapp.intake import archiving, artifacts
from memoryapp.intake.cutters import Segmenter
from memoryapp.intake.imports import IMPORT
from memoryapp.intake.messages import add_messages
from memoryapp.memory.sessions import limits
from memoryapp.models import Artifact, ChatUser, Erasure, Message, PassageVector, Role, Run, Suggestion, Topic, Work
from memoryapp.platform import work
from memoryapp.platform.database import StagePaused
from memoryapp.platform.llm import clients
from memoryapp.platform.work import ARCHIVE
from memoryapp.runs import endings, lifecycle
from memoryapp.search.profiles import profile_row
from memoryapp.search.vectors import EMBED, embed_pending
from memoryapp.upkeep import tasks
from tests.conftest import operator, signed_in
from tests.curation.placed_topics import only, placed
from tests.intake.test_archiving import message_record
from tests.search.test_vectors import Away, Hashing
from tests.support.browsing import flat


@pytest.fixture(autouse=True)
def hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "embedder_of", lambda of: Hashing())
    monkeypatch.setattr(work, "BEAT_SECONDS", 0.0)


def going(owner: ChatUser, **fields: Any) -> Work:
    fields = {"state": Work.State.GOING_ON, "started_at": timezone.now() - timedelta(seconds=10), **fields}
    fields = {"kind": "archive", "worker": "worker (process 7)", "done": 500, "share": 0.25, **fields}
    return Work.objects.create(owner=owner, **fields)


class Terminal(io.StringIO):
    """A terminal; ``then`` is called when the first line is written to it."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self._then: Callable[[], None] | None = then

    def write(self, text: str) -> int:
        then, self._then = self._then, None
        if then:
            then()
        return super().write(text)


def locked(what: str, number: int) -> Any:
    """Holds the lock of a piece of work on another connection."""
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, %s))", [what, number])
    return other


def unlock(other: Any) -> None:
    """Frees the locks at once; the server frees those of a closed connection only when it notices."""
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock_all()")
    other.close()


@pytest.mark.django_db(transaction=True)
class TestJoining:
    @pytest.fixture
    def anna(self) -> ChatUser:
        return ChatUser.objects.create(name="anna")

    def test_archive_waits_for_who_is_at_it_says_who_and_takes_over(
        self, anna: ChatUser, capsys: pytest.CaptureFixture[str]
    ) -> None:
        add_messages(anna, [message_record(number) for number in range(6)])
        going(anna)
        other = locked("archive", anna.pk)
        terminal = Terminal(other.close)
        call_command("archive", "--user", "anna", "--now", "--json", stderr=terminal)
        assert "500 messages (25 %), 50 a second, 30 s left, worker (process 7)" in terminal.getvalue()
        assert json.loads(capsys.readouterr().out)["messages"] == 6
        assert not Message.objects.active().exists()

    def test_what_the_other_archived_meanwhile_is_counted(
        self, anna: ChatUser, capsys: pytest.CaptureFixture[str]
    ) -> None:
        add_messages(anna, [message_record(number) for number in range(4)])
        going(anna)
        other = locked("archive", anna.pk)

        def finish() -> None:
            unlock(other)
            archiving.archive(anna, Segmenter(anna, Hashing()), limits(anna), now=True)

        call_command("archive", "--user", "anna", "--now", "--json", stderr=Terminal(finish))
        assert json.loads(capsys.readouterr().out)["messages"] == 4

    def test_a_chat_user_erased_meanwhile_takes_nobodys_row_down(self, anna: ChatUser) -> None:
        joint = work.JointWork(EMBED, "worker", {anna.pk: 2}, lambda shown: None)
        joint.add([anna.pk + 1, anna.pk, anna.pk])
        joint.end()
        assert [row.owner for row in Work.objects.filter(state=Work.State.DONE)] == [anna]

    def test_vectors_that_another_process_makes_are_waited_for(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(number) for number in range(4)])
        archiving.archive(anna, Segmenter(anna, Hashing()), limits(anna), now=True)
        going(anna, kind="embed")
        other = locked("embed", async_to_sync(profile_row)(Hashing().profile).pk)
        terminal = Terminal(other.close)
        call_command("archive", stderr=terminal)
        assert "Embedding (anna): 500 passages" in terminal.getvalue()
        assert PassageVector.objects.filter(owner=anna).exists()


@pytest.mark.django_db
class TestRows:
    def test_an_archive_leaves_a_row_that_says_it_is_done(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(number) for number in range(4)])
        seen: list[str] = []
        archiving.archive(
            anna, Segmenter(anna, Hashing()), limits(anna), now=True, report=lambda shown: seen.append(work.line(shown))
        )
        row = Work.objects.get(kind="archive")
        assert (row.state, row.done, row.share, row.fault) == (Work.State.DONE, 4, 1.0, "")
        assert seen[0].startswith("4 messages (100 %)")
        assert work.unfinished(ChatUser.objects.all()) == []

    def test_an_import_leaves_one_for_its_file(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.jsonl"
        path.write_text(json.dumps({"user": "anna", "messages": [{"id": "1", "role": "user", "ts": 0, "text": "x"}]}))
        call_command("import_chat", str(path), "--dry-run")
        assert not Work.objects.exists()
        call_command("import_chat", str(path))
        row = Work.objects.get()
        assert (row.kind, row.source, row.state, row.done) == (IMPORT, "chat.jsonl", Work.State.DONE, 1)

    @pytest.mark.slow
    def test_vectors_leave_one_for_each_chat_user(self, anna: ChatUser, boris: ChatUser) -> None:
        for owner in (anna, boris):
            add_messages(owner, [message_record(number) for number in range(3)])
            archiving.archive(owner, Segmenter(owner, Hashing()), limits(owner), now=True)
        async_to_sync(embed_pending)(Hashing(), batch=1)
        rows = Work.objects.filter(kind="embed")
        assert {row.owner.name for row in rows} == {"anna", "boris"}
        assert {(row.state, row.share) for row in rows} == {(Work.State.DONE, 1.0)}
        async_to_sync(embed_pending)(Hashing())
        assert rows.count() == 2

    def test_vectors_are_in_sight_while_the_model_has_not_answered_yet(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(number) for number in range(3)])
        archiving.archive(anna, Segmenter(anna, Hashing()), limits(anna), now=True)
        seen: list[str] = []

        class Watched(Hashing):
            async def embed(self, texts: Sequence[str]) -> Vectors:
                seen.extend([row.state async for row in Work.objects.filter(kind="embed", owner=anna)])
                return await super().embed(texts)

        async_to_sync(embed_pending)(Watched())
        assert seen[0] == Work.State.GOING_ON

    def test_work_that_fails_says_why_and_the_next_one_works(self, anna: ChatUser) -> None:
        add_messages(anna, [message_record(number) for number in range(4)])
        work.ask_to_archive(anna, "ada")
        with pytest.raises(EmbeddingError):
            archiving.archive(anna, Segmenter(anna, Away()), limits(anna), now=True)
        [shown] = work.unfinished(ChatUser.objects.all())
        assert (shown.work.state, shown.work.fault) == (Work.State.FAILED, "The endpoint is away.")
        assert anna not in work.asked_to_archive()
        assert archiving.archive(anna, Segmenter(anna, Hashing()), limits(anna), now=True).messages == 4
        assert work.unfinished(ChatUser.objects.all()) == []

    def test_a_failure_is_shown_in_the_readers_language_without_the_endpoints_words(
        self, anna: ChatUser, as_viewer: Client
    ) -> None:
        class Refusing(Hashing):
            async def embed(self, texts: Sequence[str]) -> Vectors:
                values = {"url": "https://models.example/v1/embeddings", "status": 503, "quoted": "tea with Anna"}
                raise EmbeddingError(Note("embedder_failing", values))

        add_messages(anna, [message_record(number) for number in range(4)])
        with pytest.raises(EmbeddingError, match="tea with Anna"):
            archiving.archive(anna, Segmenter(anna, Refusing()), limits(anna), now=True)
        going(anna, kind="embed", worker="worker#7")
        english, russian = (
            flat(as_viewer.get(f"/memory/{anna.pk}/", headers={"accept-language": language}).content.decode())
            for language in ("en", "ru")
        )
        assert "failed: The embedding endpoint https://models.example/v1/embeddings answered 503." in english
        assert "Сервер эмбеддингов https://models.example/v1/embeddings ответил 503." in russian
        assert "worker (process 7)" in english
        assert "worker (процесс 7)" in russian
        assert "tea with Anna" not in english + russian

    def test_a_process_without_signs_of_life_is_not_at_work(self, anna: ChatUser) -> None:
        row = going(anna)
        assert [shown.is_going_on for shown in work.unfinished(ChatUser.objects.all())] == [True]
        Work.objects.filter(pk=row.pk).update(at=timezone.now() - timedelta(minutes=2))
        assert work.unfinished(ChatUser.objects.all()) == []
        assert work.current(anna, ARCHIVE) is None

    def test_a_killed_worker_leaves_what_was_asked_to_the_next(self, anna: ChatUser) -> None:
        class Killed(Hashing):
            async def embed(self, texts: Sequence[str]) -> Vectors:
                raise KeyboardInterrupt

        add_messages(anna, [message_record(0), message_record(1)])
        work.ask_to_archive(anna, "ada")
        with pytest.raises(KeyboardInterrupt):
            archiving.archive(anna, Segmenter(anna, Killed()), limits(anna))
        tasks.archive_asked()
        assert Topic.objects.of(anna).exists()


@pytest.mark.django_db
class TestPages:
    @pytest.fixture
    def waiting(self, anna: ChatUser) -> ChatUser:
        add_messages(anna, [replace(message_record(number), sent_at=timezone.now()) for number in range(4)])
        return anna

    @pytest.mark.slow
    def test_a_curator_asks_for_an_archive_and_the_worker_takes_sessions_that_still_go_on(
        self, waiting: ChatUser
    ) -> None:
        client = signed_in(operator("cara", Role.CURATOR, waiting))
        assert "Archive now" in client.get(f"/memory/{waiting.pk}/").content.decode()
        tasks.archive_due()
        tasks.archive_asked()
        assert not Topic.objects.exists()
        answer = client.post(f"/memory/{waiting.pk}/work/", {"next": f"/memory/{waiting.pk}/"}, follow=True)
        page = answer.content.decode()
        assert "will be archived within seconds" in page
        assert "requested by cara" in page
        assert f'hx-get="/memory/{waiting.pk}/work/" hx-trigger="every 2s"' in page
        tasks.archive_asked()
        assert not Message.objects.active().exists()
        panel = client.get(f"/memory/{waiting.pk}/work/", headers={"HX-Request": "true"}).content.decode()
        assert "Nothing is running in the background." in panel
        assert "hx-trigger" not in panel

    @pytest.mark.slow
    def test_work_is_shown_where_one_waits_for_it_and_only_to_who_may_see_it(
        self, anna: ChatUser, as_viewer: Client, as_stranger: Client
    ) -> None:
        going(anna, kind="import", source="result.json")
        for address in ("/", "/work/", f"/memory/{anna.pk}/", f"/memory/{anna.pk}/imports/"):
            page = as_viewer.get(address).content.decode()
            assert "result.json" in page, address
            assert "500 messages (25 %), 50 a second, 30 s left, worker (process 7)" in page, address
        assert "result.json" not in as_stranger.get("/work/").content.decode()
        assert as_stranger.get(f"/memory/{anna.pk}/work/").status_code == 404

    def test_asking_while_somebody_works_asks_for_what_comes_after(self, waiting: ChatUser) -> None:
        row = going(waiting)
        work.ask_to_archive(waiting, "ada")
        row.refresh_from_db()
        assert (row.state, row.done) == (Work.State.GOING_ON, 500)
        assert list(work.asked_to_archive()) == [waiting]


@pytest.mark.django_db
class TestPauses:
    @pytest.fixture
    def both(self, anna: ChatUser, boris: ChatUser) -> None:
        for owner in (anna, boris):
            add_messages(owner, [message_record(number) for number in range(3)])

    @pytest.mark.usefixtures("both")
    def test_a_paused_stage_does_nothing_and_a_resumed_one_takes_up_what_waits(self) -> None:
        work.pause(ARCHIVE, "ada")
        work.pause(ARCHIVE, "ben")
        tasks.archive_due()
        tasks.archive_asked()
        assert not Topic.objects.exists()
        work.resume(ARCHIVE)
        work.pause(EMBED, "ada")
        tasks.archive_due()
        tasks.embed_pending()
        assert (Topic.objects.count() > 0, PassageVector.objects.exists()) == (True, False)
        work.resume(EMBED)
        tasks.embed_pending()
        assert PassageVector.objects.exists()

    @pytest.mark.usefixtures("both")
    def test_a_stage_paused_for_one_goes_on_for_the_others(self, anna: ChatUser) -> None:
        work.pause(ARCHIVE, "ada", anna)
        tasks.archive_due()
        assert {topic.owner.name for topic in Topic.objects.all()} == {"boris"}
        work.resume(ARCHIVE)
        assert work.is_paused(ARCHIVE, anna)
        work.resume(ARCHIVE, anna)
        work.pause(EMBED, "ada", anna)
        tasks.archive_due()
        tasks.embed_pending()
        assert {vector.owner.name for vector in PassageVector.objects.all()} == {"boris"}

    @pytest.mark.slow
    @pytest.mark.usefixtures("both")
    def test_work_that_is_paused_in_the_middle_stops_and_what_is_done_stays(self, anna: ChatUser) -> None:
        class PausedMeanwhile(Hashing):
            async def embed(self, texts: Sequence[str]) -> Vectors:
                await sync_to_async(work.pause)(EMBED, "ada", anna)
                return await super().embed(texts)

        tasks.archive_due()
        # What was made joint ends with the pause; what is made for one alone leaves the others their turn.
        with suppress(StagePaused):
            async_to_sync(embed_pending)(PausedMeanwhile(), batch=1)
        made = PassageVector.objects.count()
        row = Work.objects.get(kind="embed", owner=anna)
        assert (made > 0, row.state, row.fault) == (True, Work.State.WAITING, "")
        tasks.embed_pending()
        assert {vector.owner.name for vector in PassageVector.objects.all()} >= {"boris"}
        work.resume(EMBED, anna)
        tasks.embed_pending()
        row.refresh_from_db()
        assert (PassageVector.objects.filter(owner=anna).count() > made, row.state) == (True, Work.State.DONE)

    def test_a_sweep_that_is_paused_in_the_middle_is_no_fault(self) -> None:
        @app.task
        def paused() -> None:
            raise StagePaused

        assert paused() is None

    @pytest.mark.parametrize("is_everybodys", [True, False])
    def test_a_persons_own_button_says_that_the_stage_is_paused(
        self, anna: ChatUser, as_admin: Client, is_everybodys: bool
    ) -> None:
        work.pause(ARCHIVE, "ada", None if is_everybodys else anna)
        page = as_admin.post(f"/memory/{anna.pk}/work/", follow=True).content.decode()
        whom = "all chat users" if is_everybodys else "this chat user"
        assert f"Archiving is paused for {whom} by ada" in page
        assert anna not in work.asked_to_archive()


# A clock that was ahead and was corrected: rows with later times block nothing until that time comes.


AHEAD = timedelta(days=400)


def test_the_run_of_a_process_that_died_then_is_closed(anna: ChatUser) -> None:
    run = lifecycle.start(anna, "a question")
    Run.objects.update(state=Run.State.RUNNING, heartbeat_at=timezone.now() + AHEAD, attempt=9)
    assert endings.close_abandoned() == 1
    run.refresh_from_db()
    assert run.fallback == "abandoned"


def test_a_run_that_was_asked_for_then_is_executed(anna: ChatUser) -> None:
    run = lifecycle.start(anna, "a question")
    Run.objects.update(created_at=timezone.now() + AHEAD)
    assert lifecycle.unclaimed() == [run.pk]


def test_a_file_that_was_put_off_then_is_read(anna: ChatUser, settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    artifacts.put(anna, "bread.txt", "text/plain", b"Rye bread with caraway seeds.")
    Artifact.objects.update(due_at=timezone.now() + AHEAD)
    assert artifacts.process_due() == 1


def test_a_suggestion_that_was_leased_then_is_free(anna: ChatUser) -> None:
    ada, bob = operator("ada", Role.CURATOR, anna), operator("bob", Role.CURATOR, anna)
    placed(anna, 0, 1)
    found = only(anna)
    suggestions.lease(found, ada.user)
    Suggestion.objects.update(held_at=timezone.now() + AHEAD)
    found.refresh_from_db()
    assert suggestions.holder(found) is None
    assert suggestions.lease(found, bob.user) == bob.user


def test_work_that_was_cut_off_then_does_not_go_on_for_ever(anna: ChatUser) -> None:
    Work.objects.create(owner=anna, kind="import", state=Work.State.GOING_ON, at=timezone.now() + AHEAD)
    Work.objects.update(at=timezone.now() + AHEAD)
    assert work.current(anna, IMPORT) is None
    assert work.unfinished(ChatUser.objects.all()) == []


def test_what_was_asked_for_then_is_done_once(anna: ChatUser) -> None:
    """It was requested by a process whose clock is ahead of the worker's."""
    work.ask_to_archive(anna, "ada")
    Work.objects.update(asked_at=timezone.now() + AHEAD)
    with work.tracked(anna, ARCHIVE):
        pass
    assert not work.AskedSessions.of(anna)


def test_who_asks_while_it_is_done_is_not_forgotten(anna: ChatUser) -> None:
    work.ask_to_archive(anna, "ada")
    with work.tracked(anna, ARCHIVE):
        work.ask_to_archive(anna, "bob")
    assert work.AskedSessions.of(anna)


def test_an_erasure_that_ended_then_is_looked_at_once_more(anna: ChatUser) -> None:
    now = timezone.now()
    Erasure.objects.create(
        kind=Erasure.Kind.USER, owner_number=anna.pk, actor="ada", salt=b"x" * 32, ended_at=now + AHEAD
    )
    assert erasure.due().count() == 1
