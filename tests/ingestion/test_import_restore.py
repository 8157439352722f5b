"""The export of a whole memory, given to the page of imports: it is restored into an empty memory, completely or not at
all."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from memoryapp.intake import transfer
from memoryapp.intake.messages import add_messages
from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, Fact, ImportFile, Message, Person, Topic
from memoryapp.upkeep import tasks
from tests.conftest import record, talk
from tests.support.browsing import flat

State = ImportFile.State


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.IMPORT_DIR = tmp_path / "imports"
    return tmp_path


@pytest.fixture
def exported(anna: ChatUser) -> str:
    """Returns Anna's memory as a file: two topics, a person, a fact."""
    first, _second = talk(anna, ("Cake", ["Where is the cake?", "In the oven."]), ("Boats", ["Whose boat is it?"]))
    Person.objects.create(owner=anna, display_name="Dasha")
    row = {"relation": "bakes", "category": "food", "content": "Dasha bakes", "type": "status", "importance": 5}
    Fact.objects.create(owner=anna, topic=first, created_at=timezone.now(), **row)
    return "".join(transfer.lines(anna))


def pause_by_page(row: ImportFile) -> None:
    """Pauses it over a connection of its own: in the transaction of the restore it would wait for itself."""
    try:
        files.pause(ImportFile.objects.get(pk=row.pk))
    finally:
        connection.close()


def worked(row: ImportFile) -> ImportFile:
    tasks.import_waiting()
    row.refresh_from_db()
    return row


def staged(owner: ChatUser, content: str) -> ImportFile:
    path = settings.IMPORT_DIR.parent / "received"
    path.write_text(content)
    return files.stage(owner, path, "anna.jsonl", "ada")


# The restore is one transaction, and its progress is written outside of it.
@pytest.mark.django_db(transaction=True)
class TestRestoring:
    def test_a_whole_memory_comes_back_into_an_empty_one(
        self, exported: str, boris: ChatUser, as_admin: Client
    ) -> None:
        row = worked(staged(boris, exported))
        assert (row.state, row.findings["messages"]) == (State.READY, 3)
        assert {kind: row.findings["restores"][kind] for kind in ("message", "topic", "fact", "person")} == {
            "message": 3,
            "topic": 2,
            "fact": 1,
            "person": 1,
        }
        address = f"/memory/{boris.pk}/imports/files/{row.pk}/"
        assert "Restore the memory" in flat(as_admin.get(address).content.decode())
        files.begin(row)
        row = worked(row)
        assert (row.state, row.share, row.fault) == (State.DONE, 1.0, "")
        assert "The memory is restored." in flat(as_admin.get(address).content.decode())
        assert Fact.objects.get(owner=boris).topic == Topic.objects.get(owner=boris, summary="Cake")
        assert Person.objects.get(owner=boris).display_name == "Dasha"
        assert _contents(boris) == _contents(ChatUser.objects.get(name="anna"))

    def test_a_memory_without_messages_comes_back_too(self, anna: ChatUser, boris: ChatUser, as_admin: Client) -> None:
        Person.objects.create(owner=anna, display_name="Dasha")
        row = worked(staged(boris, "".join(transfer.lines(anna))))
        address = f"/memory/{boris.pk}/imports/files/{row.pk}/"
        assert "Restore the memory" in flat(as_admin.get(address).content.decode())
        as_admin.post(address, {"do": "begin"})
        assert worked(row).state == State.DONE
        assert [person.display_name for person in Person.objects.filter(owner=boris)] == ["Dasha"]

    def test_one_that_is_paused_leaves_nothing_and_can_be_gone_on_with(
        self, exported: str, boris: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.begin(row := worked(staged(boris, exported)))
        watch = files._Watch.__call__

        def pausing(self: Any, count: int) -> None:
            with ThreadPoolExecutor(1) as page:
                page.submit(pause_by_page, row).result()
            watch(self, count)

        with monkeypatch.context() as patch:
            patch.setattr(files._Watch, "__call__", pausing)
            assert worked(row).state == State.PAUSED
        assert not Message.objects.of(boris).exists()
        files.begin(row)
        assert worked(row).state == State.DONE
        assert Message.objects.of(boris).count() == 3

    def test_a_memory_with_messages_takes_the_messages_alone(self, exported: str, boris: ChatUser) -> None:
        add_messages(boris, [record(90, "Mine.")])
        row = worked(staged(boris, exported))
        assert (row.findings["restores"], row.findings["added"]) == ({}, 3)
        files.begin(row)
        assert worked(row).state == State.DONE
        assert (Message.objects.of(boris).count(), Fact.objects.filter(owner=boris).count()) == (4, 0)

    def test_a_memory_that_got_messages_meanwhile_is_not_restored_by_halves(
        self, exported: str, boris: ChatUser
    ) -> None:
        files.begin(row := worked(staged(boris, exported)))
        add_messages(boris, [record(90, "Mine.")])
        assert (worked(row).state, "has messages already" in row.fault) == (State.FAILED, True)
        assert Message.objects.of(boris).count() == 1

    def test_one_that_was_cut_off_is_a_sentence(self, exported: str, boris: ChatUser) -> None:
        row = worked(staged(boris, exported.rpartition('{"mnemoscope":"end"')[0]))
        assert (row.state, "anna.jsonl was cut off before its end" in row.fault) == (State.FAILED, True)


def _contents(owner: ChatUser) -> list[Any]:
    """Returns what an export contains of the memory, without numbers and names."""
    values = [json.loads(line) for line in transfer.lines(owner)]
    return [(value.get("text"), value.get("summary"), value.get("content")) for value in values]
