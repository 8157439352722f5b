"""Files given to the page of imports: rehearsed, completed, imported in part, paused, continued, and restored."""

import io
import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from memoryapp.intake import messages, transfer
from memoryapp.intake.imports import IMPORT
from memoryapp.intake.messages import add_messages
from memoryapp.intake.transfer import files
from memoryapp.intake.transfer.files import FileActionRefused
from memoryapp.memory import content as chat_users
from memoryapp.models import ChatUser, Fact, ImportBatch, ImportFile, Message, Person, Topic, Work
from memoryapp.platform import work
from memoryapp.upkeep import tasks
from tests.conftest import record, talk
from tests.erasure.conftest import erase_user
from tests.platform.test_work import locked, unlock
from tests.support.browsing import flat
from tests.support.chats import chat_line, memory, sent, telegram, written

State = ImportFile.State
CYRILLIC = re.compile("[а-яё]{2}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.IMPORT_DIR = tmp_path / "imports"
    return tmp_path


def staged(owner: ChatUser, content: Any, name: str = "chat.json") -> ImportFile:
    path = settings.IMPORT_DIR.parent / "received"
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    return files.stage(owner, path, name, "ada")


def worked(row: ImportFile) -> ImportFile:
    """Returns the row after the worker's next sweep."""
    tasks.import_waiting()
    row.refresh_from_db()
    return row


def conversation(count: int, user: str = "", first: int = 0, **fields: Any) -> str:
    began = datetime(2025, 7, 25, 14, tzinfo=UTC)
    lines = [
        chat_line(id=f"m{n}", ts=(began + timedelta(minutes=n)).isoformat(), text=f"text {n}", **fields)
        for n in range(first, first + count)
    ]
    return json.dumps({"messages": lines, **({"user": user} if user else {})})


def stored() -> list[tuple[str, str]]:
    return list(
        Message.objects.order_by("sent_at", "external_id", "owner__name").values_list("owner__name", "external_id")
    )


@pytest.mark.django_db
class TestTheWay:
    def test_a_file_is_looked_through_then_imported_as_one_batch(self, anna: ChatUser) -> None:
        row = worked(staged(anna, conversation(30), "chats of July.jsonl"))
        found = row.findings
        assert (row.state, row.format, stored()) == (State.READY, "jsonl", [])
        assert (found["messages"], found["added"], found["skipped"], found["rejected"]) == (30, 30, 0, 0)
        assert (found["first"], found["last"]) == ("2025-07-25T14:00:00+00:00", "2025-07-25T14:29:00+00:00")
        assert found["speakers"] == [{"author": "Anna", "role": "user", "count": 30}]
        assert found["samples"][0]["text"] == "text 0"
        assert (found["sessions"], found["cost_usd"]) == (1, 0.0)
        assert 1 <= found["topics"] <= 30
        assert found["tokens"] > 30
        files.begin(row)
        row = worked(row)
        assert (row.state, row.share, len(stored())) == (State.DONE, 1.0, 30)
        batch = ImportBatch.objects.get()
        assert (batch.source, batch.added, batch.skipped, batch.file) == ("chats of July.jsonl", 30, 0, row.key)
        assert not row.path.exists()
        assert Work.objects.get(kind="import").state == Work.State.DONE

    def test_the_same_file_again_is_all_there_and_a_longer_one_adds_the_rest(self, anna: ChatUser) -> None:
        for count, (added, skipped) in ((5, (5, 0)), (5, (0, 5)), (8, (3, 5))):
            row = worked(staged(anna, conversation(count)))
            assert (row.findings["added"], row.findings["skipped"]) == (added, skipped)
            files.begin(row)
            assert worked(row).findings["added"] == added
        assert len(stored()) == 8

    def test_what_an_import_would_cost_is_that_of_its_new_messages(self, anna: ChatUser, settings: Any) -> None:
        settings.EMBEDDING_BASE_URL, settings.EMBEDDING_PRICE = "http://models", 1.0
        first = worked(staged(anna, conversation(30)))
        files.begin(first)
        worked(first)
        again = worked(staged(anna, conversation(30))).findings
        assert (again["sessions"], again["topics"], again["tokens"], again["cost_usd"]) == (0, 0, 0, 0.0)
        longer = worked(staged(anna, conversation(33))).findings
        assert (longer["added"], longer["sessions"]) == (3, 1)
        assert 0 < longer["tokens"] < first.findings["tokens"] / 5

    def test_a_changed_text_is_shown_beside_the_old_one_and_not_taken(self, anna: ChatUser) -> None:
        files.begin(row := worked(staged(anna, conversation(2))))
        worked(row)
        row = worked(staged(anna, conversation(2).replace("text 1", "text 1, edited")))
        [change] = row.findings["changes"]
        assert (change["old"], change["new"], row.findings["changed"]) == ("text 1", "text 1, edited", 1)
        files.begin(row)
        worked(row)
        assert Message.objects.get(external_id="m1").text == "text 1"

    def test_what_cannot_be_taken_is_named_with_its_place(self, anna: ChatUser) -> None:
        row = worked(staged(anna, f"{conversation(1)}\n{{oops"))
        assert [item["line"] for item in row.findings["rejections"]] == [2]
        assert (row.state, row.findings["rejected"]) == (State.READY, 1)

    @pytest.mark.parametrize("content", ["just words", '{"messages": [{"id": 1', "[]", conversation(1, role="robot")])
    def test_a_file_that_is_no_chat_fails_with_a_sentence_that_names_it_as_people_do(
        self, anna: ChatUser, content: str
    ) -> None:
        row = worked(staged(anna, content, "Letter.txt"))
        assert row.state == State.FAILED
        assert "Letter.txt" in row.fault
        assert str(row.key) not in row.fault

    def test_what_cannot_be_imported_is_reported_in_the_language_of_the_uploader(self, anna: ChatUser) -> None:
        with translation.override("ru"):
            refused, mixed = staged(anna, "just words", "Letter.txt"), staged(anna, f"{conversation(1)}\n{{oops")
        assert "Letter.txt" in worked(refused).fault
        assert CYRILLIC.search(refused.fault)
        [rejection] = worked(mixed).findings["rejections"]
        assert CYRILLIC.search(rejection["reason"])
        files.answer(refused)
        assert not CYRILLIC.search(worked(refused).fault)

    def test_a_fault_of_the_program_stops_one_file_and_not_the_next(
        self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = staged(anna, conversation(1)), staged(anna, conversation(2))
        rehearse = files.rehearse

        def faulty(*given: Any) -> Any:
            if given[1].path == first.path:
                raise ZeroDivisionError
            return rehearse(*given)

        with monkeypatch.context() as patch:
            patch.setattr(files, "rehearse", faulty)
            assert (worked(first).state, worked(second).state) == (State.FAILED, State.READY)
        files.answer(first)
        assert worked(first).state == State.READY


@pytest.mark.django_db
class TestQuestions:
    def test_a_group_asks_who_the_user_is(self, anna: ChatUser) -> None:
        group = telegram(sent(1), sent(2, **{"from": "Boris", "from_id": "user7"}), type="private_group", name="Trip")
        group["messages"][0]["from"] = "Me"
        row = worked(staged(anna, group))
        assert row.state == State.ASKING
        assert {speaker["author"] for speaker in row.findings["speakers"]} == {"Me", "Boris"}
        files.answer(row, me="Boris")
        row = worked(row)
        assert row.state == State.READY
        assert {(item["author"], item["role"]) for item in row.findings["speakers"]} == {
            ("Boris", "user"),
            ("Me", "peer"),
        }

    def test_a_file_of_several_users_asks_whose_are_meant(self, anna: ChatUser) -> None:
        content = f"{conversation(2, 'nina')}\n{conversation(3, 'olga')}"
        row = worked(staged(anna, content))
        assert row.findings == {"users": [{"name": "nina", "count": 2}, {"name": "olga", "count": 3}]}
        files.answer(row, addressee="olga")
        assert worked(row).findings["messages"] == 3
        files.begin(row)
        worked(row)
        assert stored() == [("anna", "m0"), ("anna", "m1"), ("anna", "m2")]

    def test_everybody_gets_their_own_and_an_undoable_batch(self, anna: ChatUser) -> None:
        row = worked(staged(anna, f"{conversation(1, 'nina')}\n{conversation(1, 'olga')}"))
        files.answer(row, addressee=ImportFile.EVERYBODY)
        worked(row)
        files.begin(row)
        worked(row)
        assert stored() == [("nina", "m0"), ("olga", "m0")]
        assert [batch.owner.name for batch in files.batches(row)] == ["nina", "olga"]

    def test_a_file_without_times_asks_for_a_day(self, anna: ChatUser) -> None:
        row = worked(staged(anna, conversation(3).replace('"ts"', '"when"')))
        assert (row.state, row.findings["timeless"], row.findings["messages"]) == (State.ASKING, 3, 0)
        assert "--start" not in json.dumps(row.findings)
        files.answer(row, start=datetime(2020, 1, 1, tzinfo=UTC))
        row = worked(row)
        assert (row.state, row.findings["counted"], row.findings["first"][:10]) == (State.READY, 3, "2020-01-01")


@pytest.mark.django_db
class TestDecisions:
    def test_what_was_decided_meanwhile_is_not_decided_again(self, anna: ChatUser) -> None:
        row = staged(anna, conversation(1))
        for decide in (files.begin, files.pause, files.answer):
            with pytest.raises(FileActionRefused, match="decided meanwhile"):
                decide(row)
        files.begin(row := worked(row))
        with pytest.raises(FileActionRefused, match="Pause"):
            files.discard(row)

    def test_a_discarded_file_is_gone(self, anna: ChatUser) -> None:
        row = worked(staged(anna, conversation(1)))
        files.discard(row)
        assert not ImportFile.objects.exists()
        assert not row.path.exists()

    def test_files_nobody_decides_about_and_files_of_no_row_are_removed(self, anna: ChatUser) -> None:
        row, kept = worked(staged(anna, conversation(1))), staged(anna, conversation(1))
        stray, fresh = settings.IMPORT_DIR / "body-stray", settings.IMPORT_DIR / "body-fresh"
        stray.touch()
        fresh.touch()
        long_ago = time.time() - settings.IMPORT_KEEP.total_seconds() - 60
        os.utime(stray, (long_ago, long_ago))
        ImportFile.objects.update(at=timezone.now() - settings.IMPORT_KEEP - timedelta(minutes=1))
        tasks.clear_import_files()
        assert list(ImportFile.objects.all()) == [kept]
        assert sorted(settings.IMPORT_DIR.iterdir()) == sorted([fresh, kept.path])
        assert not row.path.exists()

    def test_an_erased_chat_users_files_go_too(self, anna: ChatUser) -> None:
        row = worked(staged(anna, conversation(1)))
        receipt = erase_user(anna, "ada")
        assert (receipt.counts["memoryapp_importfile"], receipt.counts["files"]) == (1, 1)
        assert not row.path.exists()
        with pytest.raises(chat_users.BeingErased):
            staged(anna, conversation(1))


@pytest.mark.django_db
class TestPauses:
    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(messages, "BATCH", 10)

    def test_a_paused_import_goes_on_in_its_batch(self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch) -> None:
        row = worked(staged(anna, conversation(35)))
        files.begin(row)
        watch = files._Watch.__call__

        def pausing(self: Any, count: int) -> None:
            if count == 20:
                files.pause(ImportFile.objects.get(pk=row.pk))
            watch(self, count)

        with monkeypatch.context() as patch:
            patch.setattr(files._Watch, "__call__", pausing)
            paused = worked(row)
        assert (paused.state, paused.done, paused.share > 0) == (State.PAUSED, 10, True), "how far it was is kept"
        assert len(stored()) == 20
        assert worked(row).state == State.PAUSED, "the worker leaves it alone"
        files.begin(row)
        assert worked(row).state == State.DONE
        batch = ImportBatch.objects.get()
        assert (len(stored()), batch.added, batch.skipped) == (35, 35, 0)

    def test_a_pause_after_the_last_batch_ends_as_done(self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch) -> None:
        row = worked(staged(anna, conversation(25)))
        files.begin(row)
        take = files.take

        def pausing(*given: Any) -> int:
            files.pause(ImportFile.objects.get(pk=row.pk))
            return take(*given)

        monkeypatch.setattr(files, "take", pausing)
        assert worked(row).state == State.DONE
        assert (row.findings["added"], len(stored()), row.path.exists()) == (25, 25, False)

    def test_an_import_whose_stage_is_paused_goes_on_in_its_batch(
        self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = worked(staged(anna, conversation(35)))
        files.begin(row)
        watch = files._Watch.__call__

        def pausing(self: Any, count: int) -> None:
            if count == 20:
                work.pause(IMPORT, "ada")
            watch(self, count)

        with monkeypatch.context() as patch:
            patch.setattr(work, "BEAT_SECONDS", 0.0)
            patch.setattr(files._Watch, "__call__", pausing)
            assert worked(row).state == State.IMPORTING
        assert 20 <= len(stored()) < 35
        assert worked(row).state == State.IMPORTING, "the worker leaves it alone"
        assert worked(staged(anna, conversation(3), "other.json")).state == State.READY, "and looks through others"
        work.resume(IMPORT)
        assert worked(row).state == State.DONE
        assert (len(stored()), ImportBatch.objects.get().added) == (35, 35)

    def test_a_paused_file_can_be_left_off_and_its_part_stays_as_an_import(self, anna: ChatUser) -> None:
        row = worked(staged(anna, conversation(5)))
        files.begin(row)
        files.pause(row)
        files.discard(row)
        assert not ImportFile.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestWorkers:
    def test_two_workers_never_work_on_one_file(self) -> None:
        row = staged(ChatUser.objects.create(name="anna"), conversation(1))
        other = locked(files.LOCK, row.pk)
        assert worked(row).state == State.REHEARSING
        unlock(other)
        assert worked(row).state == State.READY

    def test_only_so_many_files_are_worked_on_at_once(self) -> None:
        row = staged(ChatUser.objects.create(name="anna"), conversation(1))
        others = [locked(files.SLOT, number) for number in range(files.SLOTS)]
        assert worked(row).state == State.REHEARSING
        for other in others:
            unlock(other)
        assert worked(row).state == State.READY


# A part of a file: chats of a Telegram account and a period are chosen on the page and by the command, and what is
# left out is counted; a file of memories alone is imported, too.


def account(**parts: Any) -> dict[str, Any]:
    """Returns an account as Telegram Desktop exports it (export_output_json.cpp): its owner, and a list of chats."""
    chats = [
        telegram(sent(1, text="one"), sent(2, text="two", date="2025-06-01T09:30:00", date_unixtime="1748770200")),
        telegram(sent(1, text="three", date="2025-05-01T09:30:00", date_unixtime="1746091800"), id=8, name="Vera"),
        telegram(sent(1, text="four"), sent(2, text="five"), id=9, name=None, type="private_group"),
    ]
    return {"personal_information": {"user_id": 1}, "chats": {"about": "", "list": chats}, **parts}


def texts() -> list[str]:
    return list(Message.objects.order_by("text").values_list("text", flat=True))


def post(client: Client, row: ImportFile, **answers: Any) -> None:
    client.post(reverse("import_file", args=[row.owner_id, row.pk]), {"do": "answer", **answers})
    worked(row)


@pytest.mark.django_db
class TestOnThePage:
    def test_the_chats_are_listed_with_counts_and_last_dates_and_the_ticked_ones_are_imported(
        self, anna: ChatUser, admin_client: Client
    ) -> None:
        row = worked(staged(anna, json.dumps(account())))
        assert [(chat["name"], chat["count"], chat["last"][:10]) for chat in row.findings["chats"]] == [
            ("Boris", 2, "2025-06-01"),
            ("Vera", 1, "2025-05-01"),
            ("", 2, "2025-04-15"),
        ]
        page = admin_client.get(reverse("import_file", args=[anna.pk, row.pk])).content.decode()
        assert page.count('name="chat" value=') == page.count(" checked>") == 3
        none = admin_client.get(reverse("import_file", args=[anna.pk, row.pk]), {"tick": "none"}).content.decode()
        assert none.count(" checked>") == 0
        post(admin_client, row, chats="1", chat=["7", "8"])
        assert row.findings["left_out"] == {"its chat was not chosen": 2}
        assert row.findings["added"] == 3
        files.begin(row)
        worked(row)
        assert texts() == ["one", "three", "two"]
        assert row.findings["left_out"] == {"its chat was not chosen": 2}

    def test_a_period_takes_both_of_its_days(self, anna: ChatUser, admin_client: Client) -> None:
        row = worked(staged(anna, json.dumps(account())))
        post(admin_client, row, period="1", since="2025-04-16", until="2025-05-01")
        assert row.findings["added"] == 1
        assert row.findings["left_out"] == {"it is outside of the chosen period": 4}
        page = admin_client.get(reverse("import_file", args=[anna.pk, row.pk])).content.decode()
        assert 'value="2025-04-16"' in page
        assert 'value="2025-05-01"' in page
        post(admin_client, row, period="1", since="2030-01-01", until="")
        assert (row.state, row.findings["added"]) == (State.READY, 0)
        post(admin_client, row, period="1", since="", until="")
        assert row.findings["added"] == 5

    def test_no_chat_at_all_is_refused_and_a_hostile_date_does_no_harm(
        self, anna: ChatUser, admin_client: Client
    ) -> None:
        odd = telegram(sent(1, date="2025-99-99T00:00:00"), id=10, name="Odd")
        value = account(left_chats={"about": "", "list": [odd]})
        row = worked(staged(anna, json.dumps(value)))
        post(admin_client, row, chats="1")
        assert row.chats == []
        page = admin_client.get(reverse("import_file", args=[anna.pk, row.pk]))
        assert page.status_code == 200
        assert "Odd" in page.content.decode()

    def test_a_file_of_memories_alone_brings_facts_and_their_way_back(
        self, anna: ChatUser, admin_client: Client
    ) -> None:
        row = worked(staged(anna, json.dumps({"results": [memory(), memory(2, "")]}), "memories.json"))
        assert (row.state, row.format, row.findings["brings"]) == (State.READY, "mem0", {"fact": 1})
        page = admin_client.get(reverse("import_file", args=[anna.pk, row.pk])).content.decode()
        assert "Likes oolong" in page
        files.begin(row)
        worked(row)
        assert row.state == State.DONE
        assert Fact.objects.get().owner == anna
        [batch] = files.batches(row)
        withdrawn = reverse("withdraw", args=[anna.pk, batch.pk])
        assert withdrawn in admin_client.get(reverse("import_file", args=[anna.pk, row.pk])).content.decode()
        admin_client.post(withdrawn)
        assert not Fact.objects.current().exists()

    def test_memories_of_several_users_are_asked_about(self, anna: ChatUser) -> None:
        row = worked(staged(anna, json.dumps([memory(), memory(2, user_id="boris"), memory(3, user_id="boris")])))
        assert (row.state, row.findings) == (
            State.ASKING,
            {"users": [{"name": "anna", "count": 1}, {"name": "boris", "count": 2}]},
        )


@pytest.mark.django_db
class TestByTheCommand:
    def imported(self, path: Path, **options: Any) -> dict[str, Any]:
        out = io.StringIO()
        call_command("import_chat", str(path), user="anna", json=True, stdout=out, **options)
        found: dict[str, Any] = json.loads(out.getvalue())
        return found

    def test_a_dry_run_lists_the_chats_and_the_named_ones_are_imported(self, tmp_path: Path) -> None:
        path = written(tmp_path, account())
        listed = self.imported(path, dry_run=True)["chats"]
        assert [(chat["id"], chat["name"], chat["count"]) for chat in listed] == [
            ("7", "Boris", 2),
            ("8", "Vera", 1),
            ("9", "", 2),
        ]
        found = self.imported(path, chat=["vera", "9"])
        assert (found["messages_added"], found["left_out"]) == (3, {"its chat was not chosen": 2})
        assert texts() == ["five", "four", "three"]
        assert self.imported(path)["messages_added"] == 2

    def test_a_folder_of_single_chats_is_chosen_from_and_may_be_imported_again(self, tmp_path: Path) -> None:
        for number, name in ((7, "Boris"), (8, "Vera")):
            (tmp_path / str(number)).mkdir()
            written(tmp_path / str(number), telegram(sent(1, text=name), id=number, name=name), "result.json")
        assert self.imported(tmp_path, chat=["Vera"])["messages_added"] == 1
        assert texts() == ["Vera"]
        assert self.imported(tmp_path)["messages_added"] == 1

    def test_a_chat_that_is_not_there_is_a_sentence(self, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="There is no chat “olga”.*It has: Boris, Vera"):
            self.imported(written(tmp_path, account()), chat=["Olga"])


# The export of a whole memory, given to the page of imports: it is restored into an empty memory, completely or not
# at all.


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


def restored(row: ImportFile) -> ImportFile:
    tasks.import_waiting()
    row.refresh_from_db()
    return row


def staged_export(owner: ChatUser, content: str) -> ImportFile:
    path = settings.IMPORT_DIR.parent / "received"
    path.write_text(content)
    return files.stage(owner, path, "anna.jsonl", "ada")


# The restore is one transaction, and its progress is written outside of it.
@pytest.mark.django_db(transaction=True)
class TestRestoring:
    def test_a_whole_memory_comes_back_into_an_empty_one(
        self, exported: str, boris: ChatUser, as_admin: Client
    ) -> None:
        row = restored(staged_export(boris, exported))
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
        row = restored(row)
        assert (row.state, row.share, row.fault) == (State.DONE, 1.0, "")
        assert "The memory is restored." in flat(as_admin.get(address).content.decode())
        assert Fact.objects.get(owner=boris).topic == Topic.objects.get(owner=boris, summary="Cake")
        assert Person.objects.get(owner=boris).display_name == "Dasha"
        assert _contents(boris) == _contents(ChatUser.objects.get(name="anna"))

    def test_a_memory_without_messages_comes_back_too(self, anna: ChatUser, boris: ChatUser, as_admin: Client) -> None:
        Person.objects.create(owner=anna, display_name="Dasha")
        row = restored(staged_export(boris, "".join(transfer.lines(anna))))
        address = f"/memory/{boris.pk}/imports/files/{row.pk}/"
        assert "Restore the memory" in flat(as_admin.get(address).content.decode())
        as_admin.post(address, {"do": "begin"})
        assert restored(row).state == State.DONE
        assert [person.display_name for person in Person.objects.filter(owner=boris)] == ["Dasha"]

    def test_one_that_is_paused_leaves_nothing_and_can_be_gone_on_with(
        self, exported: str, boris: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.begin(row := restored(staged_export(boris, exported)))
        watch = files._Watch.__call__

        def pausing(self: Any, count: int) -> None:
            with ThreadPoolExecutor(1) as page:
                page.submit(pause_by_page, row).result()
            watch(self, count)

        with monkeypatch.context() as patch:
            patch.setattr(files._Watch, "__call__", pausing)
            assert restored(row).state == State.PAUSED
        assert not Message.objects.of(boris).exists()
        files.begin(row)
        assert restored(row).state == State.DONE
        assert Message.objects.of(boris).count() == 3

    def test_a_memory_with_messages_takes_the_messages_alone(self, exported: str, boris: ChatUser) -> None:
        add_messages(boris, [record(90, "Mine.")])
        row = restored(staged_export(boris, exported))
        assert (row.findings["restores"], row.findings["added"]) == ({}, 3)
        files.begin(row)
        assert restored(row).state == State.DONE
        assert (Message.objects.of(boris).count(), Fact.objects.filter(owner=boris).count()) == (4, 0)

    def test_a_memory_that_got_messages_meanwhile_is_not_restored_by_halves(
        self, exported: str, boris: ChatUser
    ) -> None:
        files.begin(row := restored(staged_export(boris, exported)))
        add_messages(boris, [record(90, "Mine.")])
        assert (restored(row).state, "has messages already" in row.fault) == (State.FAILED, True)
        assert Message.objects.of(boris).count() == 1

    def test_one_that_was_cut_off_is_a_sentence(self, exported: str, boris: ChatUser) -> None:
        row = restored(staged_export(boris, exported.rpartition('{"mnemoscope":"end"')[0]))
        assert (row.state, "anna.jsonl was cut off before its end" in row.fault) == (State.FAILED, True)


def _contents(owner: ChatUser) -> list[Any]:
    """Returns what an export contains of the memory, without numbers and names."""
    values = [json.loads(line) for line in transfer.lines(owner)]
    return [(value.get("text"), value.get("summary"), value.get("content")) for value in values]
