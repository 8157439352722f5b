"""A part of a file: chats of a Telegram account and a period are chosen on the page and by the command, and what is
left out is counted; a file of memories alone is imported, too."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, Fact, ImportFile, Message
from tests.import_files.test_import_files import staged, worked
from tests.importers.other_chats import memory
from tests.support.chats import sent, telegram, written

pytestmark = pytest.mark.django_db
State = ImportFile.State


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_DIR = tmp_path / "imports"


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
