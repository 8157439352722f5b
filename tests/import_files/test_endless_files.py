"""Files that are made to be read without an end: each ends with a sentence, and never keeps others from being read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection

from memoryapp.importers import Hints, document, open_chat, source
from memoryapp.importers.formats.memories import laplaced
from memoryapp.intake.imports import Course, Paused, import_for
from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, ImportFile
from memoryapp.upkeep import tasks
from tests.import_files.test_import_files import conversation, folder, staged, worked
from tests.support.clock import PATIENCE
from tests.support.stack import wait_for
from tests.transfer.laplaced import database, endless, fact, message

State = ImportFile.State

__all__ = ["folder"]


def staged_bomb(owner: ChatUser, table: str = "history") -> ImportFile:
    return files.stage(owner, endless(configured.IMPORT_DIR.parent, table), "laplaced.db", "ada")


@pytest.mark.django_db
class TestEnds:
    @pytest.mark.parametrize("table", ["history", "users", "topics", "structured_facts", "people", "artifacts"])
    def test_a_database_whose_pages_point_to_each_other_ends_with_a_sentence(self, anna: ChatUser, table: str) -> None:
        row = worked(staged_bomb(anna, table))
        assert row.state == State.FAILED
        assert "laplaced.db" in row.fault
        assert "more rows than the file has room for" in row.fault
        assert worked(row).state == State.FAILED, "it is not begun again"
        assert worked(staged(anna, conversation(3))).state == State.READY

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param("[" * 3_000_000, id="nested"),
            pytest.param("[" + "1," * 1_500_000 + "1]", id="flat"),
            pytest.param('{"a":"' + "x" * 3_000_000 + '"}', id="one text"),
            pytest.param('{"a":"' + '\\"' * 1_500_000 + '"}', id="quotes within a text"),
        ],
    )
    def test_a_document_of_one_huge_value_ends_with_a_sentence(
        self, anna: ChatUser, content: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(document, "MOST_WITHOUT_END", 500_000)
        row = worked(staged(anna, content))
        assert (row.state, "chat.json" in row.fault) == (State.FAILED, True)
        assert worked(staged(anna, conversation(3))).state == State.READY

    def test_a_file_that_takes_too_long_ends_with_a_sentence(
        self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = staged(anna, conversation(2_000))
        with monkeypatch.context() as patch:
            patch.setattr(source, "FIRST_SECONDS", 0.0)
            patch.setattr(source, "BYTES_A_SECOND", 1e12)
            assert worked(row).state == State.FAILED
        assert "longer to read" in row.fault
        files.answer(row)
        assert worked(row).state == State.READY

    def test_a_file_at_which_the_worker_is_lost_each_time_waits_for_a_person(self, anna: ChatUser) -> None:
        row = staged(anna, conversation(1))
        ImportFile.objects.update(attempts=files.MOST_ATTEMPTS)
        assert worked(row).state == State.FAILED
        assert "worker was lost 3 times" in row.fault
        files.answer(row)
        assert (worked(row).state, row.attempts) == (State.READY, 0)


def lines(folder: Path) -> str:
    return "\n".join(conversation(50, "nina", first=50 * number) for number in range(20))


def text(folder: Path) -> str:
    return "\n".join(f"25/07/2025, 14:{number % 60:02} - Anna: word {number}" for number in range(3_000))


def of_laplaced(folder: Path) -> bytes:
    return database(folder, history=[message(1, None)], structured_facts=[fact(1, "likes cake")]).read_bytes()


class Gone(Exception):
    pass


@pytest.mark.parametrize("write", [lines, lambda folder: conversation(1_000), text, of_laplaced])
def test_every_reader_asks_whether_the_file_is_wanted(
    write: Callable[[Path], str | bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ASK_SECONDS", 0.0)
    # A database of some rows takes fewer steps than are done between two questions.
    monkeypatch.setattr(laplaced, "STEPS_AT_ONCE", 1)
    content, path = write(tmp_path), tmp_path / "chat"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    is_wanted = True

    def ask() -> None:
        if not is_wanted:
            raise Gone

    chat = open_chat(path, hints=Hints("Anna"), ask=ask)
    readings: list[Callable[[], Any]] = [
        lambda: list(chat.records()),
        lambda: open_chat(path, hints=Hints("Anna"), ask=ask),
    ]
    readings += [chat.users] * any(reader.users for reader in chat.readers)
    readings += [lambda: list(chat.distilled())] * chat.is_distilled
    for read in readings:
        is_wanted = False
        with pytest.raises(Gone):
            read()
        is_wanted = True
        read()


@pytest.mark.django_db
def test_an_import_stops_before_the_disk_is_full_and_goes_on(anna: ChatUser, settings: Any) -> None:
    files.begin(row := worked(staged(anna, conversation(3))))
    reserve, settings.DISK_RESERVE_BYTES = settings.DISK_RESERVE_BYTES, 10**15
    assert worked(row).state == State.FAILED
    assert "free space" in row.fault
    settings.DISK_RESERVE_BYTES = reserve
    files.begin(row)
    assert worked(row).state == State.DONE


@pytest.mark.django_db(transaction=True)
class TestSlots:
    def test_a_discarded_file_frees_its_slot(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The bomb is never found out here, as a worse one might not be.
        monkeypatch.setattr(laplaced, "STEPS_A_BYTE", 10**12)
        monkeypatch.setattr(files, "SLOTS", 1)
        anna = ChatUser.objects.create(name="anna")
        bomb = staged_bomb(anna)
        worker = threading.Thread(target=_sweep)
        worker.start()
        wait_for(lambda: ImportFile.objects.filter(pk=bomb.pk, attempts=1).exists())
        good = staged(anna, conversation(3))
        assert worked(good).state == State.REHEARSING, "the only slot is taken"
        files.discard(bomb)
        worker.join(PATIENCE)
        assert not worker.is_alive()
        assert worked(good).state == State.READY


@pytest.mark.django_db
def test_an_import_asks_while_it_waits_for_its_reader(
    anna: ChatUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of an import is a thread of its own, which nobody else may leave running."""
    monkeypatch.setattr(laplaced, "STEPS_A_BYTE", 10**12)
    asked = iter((False, False, False))

    def ask() -> None:
        if next(asked, True):
            raise Paused

    chat = open_chat(endless(tmp_path), ask=ask)
    with pytest.raises(Paused):
        import_for(chat, lambda named: "anna", Course(dry_run=True))
    assert "reading ahead" not in [thread.name for thread in threading.enumerate()]


def _sweep() -> None:
    try:
        tasks.import_waiting()
    finally:
        connection.close()
