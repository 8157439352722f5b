"""The page that takes a chat file, and the page of such a file, with and without scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, ImportFile, Message, Operator, Role
from memoryapp.upkeep import tasks
from rerankui.web import uploads
from tests.conftest import operator, signed_in
from tests.support.browsing import cost, flat
from tests.support.chats import chat_line, sent, telegram

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.IMPORT_DIR = tmp_path / "imports"
    return settings.IMPORT_DIR


@pytest.fixture
def curator(anna: ChatUser) -> Operator:
    return operator("cora", Role.CURATOR, anna)


@pytest.fixture
def as_curator(curator: Operator) -> Client:
    return signed_in(curator)


CHAT = json.dumps(
    {"user": "nina", "messages": [chat_line(id="a", text="Where is <b>the</b> cake?"), chat_line(id="b")]}
)


def given(client: Client, owner: ChatUser, content: str = CHAT, name: str = "July.jsonl", **fields: Any) -> Any:
    """Returns the page's answer to this file."""
    page = client.get(f"/memory/{owner.pk}/imports/").content.decode()
    ticket = page.partition("/imports/upload/")[2].partition('"')[0]
    return client.post(
        f"/memory/{owner.pk}/imports/upload/{ticket}", {"file": SimpleUploadedFile(name, content.encode())}, **fields
    )


def looked_through(client: Client, owner: ChatUser, content: str = CHAT) -> ImportFile:
    given(client, owner, content)
    tasks.import_waiting()
    return ImportFile.objects.latest("pk")


def page_of(client: Client, row: ImportFile) -> str:
    return flat(client.get(f"/memory/{row.owner_id}/imports/files/{row.pk}/").content.decode())


class TestUploads:
    @pytest.mark.slow
    def test_a_file_is_kept_looked_through_shown_and_imported(self, anna: ChatUser, as_curator: Client) -> None:
        answer = given(as_curator, anna)
        row = ImportFile.objects.get()
        assert answer.url == f"/memory/{anna.pk}/imports/files/{row.pk}/"
        assert "waiting for the worker" in page_of(as_curator, row)
        tasks.import_waiting()
        page = page_of(as_curator, row)
        assert "Import 2 messages" in page
        assert "Where is &lt;b&gt;the&lt;/b&gt; cake?" in page
        assert "The file calls its user: nina (2)" in page
        assert "July.jsonl" in flat(as_curator.get(f"/memory/{anna.pk}/imports/").content.decode())
        as_curator.post(answer.url, {"do": "begin"})
        assert "Importing the messages" in page_of(as_curator, row)
        tasks.import_waiting()
        assert "2 messages were imported" in page_of(as_curator, row)
        assert Message.objects.of(anna).count() == 2

    def test_a_script_receives_the_address_of_the_file(self, anna: ChatUser, as_curator: Client) -> None:
        answer = given(as_curator, anna, headers={"X-Upload": "1"})
        assert (answer.status_code, answer["Location"]) == (
            201,
            f"/memory/{anna.pk}/imports/files/{ImportFile.objects.get().pk}/",
        )

    @pytest.mark.slow
    def test_no_file_an_empty_one_and_one_that_is_too_large_are_a_sentence_and_leave_nothing(
        self, anna: ChatUser, as_curator: Client, folder: Path, settings: Any
    ) -> None:
        settings.IMPORT_MAX_BYTES = 1_000
        for content in ("", "x" * 1_001):
            answer = as_curator.get(given(as_curator, anna, content).url)
            assert "No file arrived: choose one of at most 1000" in flat(answer.content.decode())
        assert list(folder.iterdir()) == []
        given(as_curator, anna)
        assert ImportFile.objects.count() == 1

    def test_an_upload_that_would_fill_the_disk_is_a_sentence_and_leaves_nothing(
        self, anna: ChatUser, as_curator: Client, folder: Path, settings: Any
    ) -> None:
        reserve, settings.DISK_RESERVE_BYTES = settings.DISK_RESERVE_BYTES, 10**15
        answer = as_curator.get(given(as_curator, anna).url)
        assert "too little free space" in flat(answer.content.decode())
        assert list(folder.iterdir()) == []
        settings.DISK_RESERVE_BYTES = reserve
        given(as_curator, anna)
        assert ImportFile.objects.count() == 1

    def test_a_ticket_is_for_one_person_and_one_memory(
        self, anna: ChatUser, boris: ChatUser, curator: Operator, admin: Operator, folder: Path
    ) -> None:
        file = {"file": SimpleUploadedFile("a.jsonl", CHAT.encode())}
        for given_to, of in ((admin.user.pk, anna.pk), (curator.user.pk, boris.pk)):
            ticket = uploads.ticket(of, given_to)
            signed_in(curator).post(f"/memory/{anna.pk}/imports/upload/{ticket}/", file)
        assert signed_in(curator).post(f"/memory/{anna.pk}/imports/upload/made-up/", file).status_code == 302
        assert not ImportFile.objects.exists()
        assert not folder.exists() or list(folder.iterdir()) == []

    def test_a_viewer_sees_files_and_decides_nothing(
        self, anna: ChatUser, as_curator: Client, as_viewer: Client, viewer: Operator
    ) -> None:
        row = looked_through(as_curator, anna)
        page = as_viewer.get(f"/memory/{anna.pk}/imports/").content.decode()
        assert "July.jsonl" in page
        assert "data-upload" not in page
        assert "A curator can import it" in page_of(as_viewer, row)
        ticket = uploads.ticket(anna.pk, viewer.user.pk)
        refused = (
            as_viewer.post(f"/memory/{anna.pk}/imports/files/{row.pk}/", {"do": "begin"}),
            as_viewer.post(f"/memory/{anna.pk}/imports/upload/{ticket}/", {"file": SimpleUploadedFile("a", b"b")}),
        )
        assert [answer.status_code for answer in refused] == [403, 403]
        assert ImportFile.objects.get().state == ImportFile.State.READY


class TestQuestions:
    def test_who_of_a_group_the_user_is(self, anna: ChatUser, as_curator: Client) -> None:
        group = telegram(sent(1, **{"from": "Me"}), sent(2, **{"from": "Boris", "from_id": "user7"}))
        row = looked_through(as_curator, anna, json.dumps({**group, "type": "private_group"}))
        assert f"Who in this chat is {anna}?" in page_of(as_curator, row)
        as_curator.post(f"/memory/{anna.pk}/imports/files/{row.pk}/", {"do": "answer", "me": "Boris"})
        tasks.import_waiting()
        page = page_of(as_curator, row)
        assert "Import 2 messages" in page
        assert page.count('name="me"') == 1, "the other may be the user after all"

    def test_all_of_several_users_are_only_for_who_may_see_them(
        self, anna: ChatUser, as_curator: Client, as_admin: Client
    ) -> None:
        row = looked_through(as_curator, anna, f"{CHAT}\n{CHAT.replace('nina', 'olga')}")
        address = f"/memory/{anna.pk}/imports/files/{row.pk}/"
        everybody = {"do": "answer", "addressee": ImportFile.EVERYBODY}
        refused = as_curator.post(address, everybody, follow=True)
        if "Only operators who may see every chat user" not in refused.content.decode():
            pytest.fail("a curator of one memory may fill others")
        assert as_admin.post(address, everybody).status_code == 302
        assert ImportFile.objects.get().state == ImportFile.State.REHEARSING

    def test_whether_the_day_or_the_month_comes_first(self, anna: ChatUser, as_curator: Client) -> None:
        row = looked_through(as_curator, anna, "1/2/24, 10:00 - anna: a\n2/2/24, 10:00 - anna: b")
        assert "what 1/2/24 means" in page_of(as_curator, row)
        address = f"/memory/{anna.pk}/imports/files/{row.pk}/"
        as_curator.post(address, {"do": "answer", "dates": "nonsense"})
        tasks.import_waiting()
        assert "what 1/2/24 means" in page_of(as_curator, row)
        as_curator.post(address, {"do": "answer", "dates": "mdy"})
        tasks.import_waiting()
        page = page_of(as_curator, row)
        assert "Import 2 messages" in page
        assert "2 Jan 2024" in page

    @pytest.mark.slow
    def test_the_day_of_a_file_without_times(self, anna: ChatUser, as_curator: Client) -> None:
        row = looked_through(as_curator, anna, CHAT.replace('"ts"', '"when"'))
        address = f"/memory/{anna.pk}/imports/files/{row.pk}/"
        assert "When did it begin?" in page_of(as_curator, row)
        for wrong in ("", "soon", "2025-02-31", "1812-01-01"):
            answer = as_curator.post(address, {"do": "answer", "start": wrong}, follow=True)
            assert "Give the date as in" in flat(answer.content.decode())
        as_curator.post(address, {"do": "answer", "start": "2025-07-25"})
        tasks.import_waiting()
        assert "2 messages are ordered as they stand, from 25 Jul 2025" in page_of(as_curator, row)


def test_a_file_that_failed_says_why_and_can_be_removed(anna: ChatUser, as_curator: Client) -> None:
    row = looked_through(as_curator, anna, "just words")
    assert "July.jsonl is in none of the formats" in page_of(as_curator, row)
    answer = as_curator.post(f"/memory/{anna.pk}/imports/files/{row.pk}/", {"do": "discard"}, follow=True)
    assert "July.jsonl was removed" in flat(answer.content.decode())


@pytest.mark.slow
def test_thirty_files_cost_as_many_queries_as_three(anna: ChatUser, as_curator: Client, folder: Path) -> None:
    def grow(count: int) -> None:
        for _ in range(count):
            ImportFile.objects.create(owner=anna, source="a", size_bytes=1, asked_by="ada", state="ready")

    grow(3)
    few = cost(as_curator, f"/memory/{anna.pk}/imports/")
    grow(27)
    assert cost(as_curator, f"/memory/{anna.pk}/imports/") == few


@pytest.mark.slow
def test_a_paused_import_can_be_gone_on_with(anna: ChatUser, as_curator: Client) -> None:
    row = looked_through(as_curator, anna)
    files.begin(row)
    address = f"/memory/{anna.pk}/imports/files/{row.pk}/"
    as_curator.post(address, {"do": "pause"})
    assert "The import is paused" in page_of(as_curator, row)
    as_curator.post(address, {"do": "begin"})
    tasks.import_waiting()
    assert "2 messages were imported" in page_of(as_curator, row)


def test_files_beyond_those_that_are_listed_are_counted(as_curator: Client, anna: ChatUser) -> None:
    for number in range(22):
        given(as_curator, anna, name=f"{number}.jsonl")
    page = flat(as_curator.get(f"/memory/{anna.pk}/imports/").content.decode())
    assert "21.jsonl" in page
    assert ">1.jsonl" not in page
    assert "and 2 more" in page
