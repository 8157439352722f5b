"""The page that takes a chat file, the page of such a file, changed texts in it and documents beside it."""

import json
import zipfile
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from memoryapp import curation, erasure
from memoryapp.curation import CurationError, knowledge, plan_edit
from memoryapp.erasure import Target
from memoryapp.importers import MessageRecord
from memoryapp.intake import imports, invariants, transfer
from memoryapp.intake.messages import add_messages, sort_out
from memoryapp.intake.transfer import files
from memoryapp.intake.transfer import files as import_files
from memoryapp.models import (
    Artifact,
    ChatUser,
    ImportBatch,
    ImportFile,
    Media,
    Message,
    Operator,
    Passage,
    Topic,
    TopicEdit,
)
from memoryapp.upkeep import tasks
from rerankui.web import uploads
from tests.conftest import BEGAN, record, signed_in, talk
from tests.support.browsing import cost, flat
from tests.support.chats import chat_line, sent, telegram

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.IMPORT_DIR = tmp_path / "imports"
    settings.DATA_DIR = tmp_path
    settings.MEDIA_ROOT = tmp_path / "files"
    return tmp_path


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
        assert list((folder / "imports").iterdir()) == []
        given(as_curator, anna)
        assert ImportFile.objects.count() == 1

    def test_an_upload_that_would_fill_the_disk_is_a_sentence_and_leaves_nothing(
        self, anna: ChatUser, as_curator: Client, folder: Path, settings: Any
    ) -> None:
        reserve, settings.DISK_RESERVE_BYTES = settings.DISK_RESERVE_BYTES, 10**15
        answer = as_curator.get(given(as_curator, anna).url)
        assert "too little free space" in flat(answer.content.decode())
        assert list((folder / "imports").iterdir()) == []
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
        assert not (folder / "imports").exists() or list((folder / "imports").iterdir()) == []

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


# Changed texts that a person takes from a file: the new wording replaces the old one, and an undo restores it.


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("Cake", ["Where is the cake?", "In the oven.", "And the tea?", "In the pot."]))[0]


def worded(number: int, text: str, **fields: Any) -> MessageRecord:
    """Returns message ``number`` of the topic with another text."""
    role = "assistant" if number % 2 else "user"
    return record(number, text, role=role, at=BEGAN + timedelta(minutes=number), **fields)


def taken(owner: ChatUser, *records: MessageRecord) -> ImportBatch:
    batch = ImportBatch.objects.create(owner=owner, source="again.json: changed texts", format="jsonl")
    imports.keep(owner, batch, records)
    imports.take_wordings(owner, batch, actor="ada")
    return batch


def texts(owner: ChatUser) -> dict[str, list[str]]:
    """Returns the texts of each live topic."""
    rows = Message.objects.of(owner).filter(topic__isnull=False).order_by("topic", "sent_at", "pk")
    pairs = rows.values_list("topic__summary", "text")
    return {summary: [text for _summary, text in part] for summary, part in groupby(pairs, key=lambda pair: pair[0])}


def found_by(topic: Topic) -> str:
    """Returns the texts with which search compares a query to find the topic."""
    passages = Passage.objects.filter(passagemessage__message__topic=topic).distinct().order_by("pk")
    return "\n".join(passages.values_list("text", flat=True))


def live(owner: ChatUser) -> Topic:
    return Topic.objects.of(owner).live().get()


def is_lawful() -> bool:
    return not list(invariants.violations())


class TestTaking:
    def test_the_new_text_comes_in_the_place_of_the_old_and_passages_are_made_anew(
        self, anna: ChatUser, topic: Topic
    ) -> None:
        taken(anna, worded(1, "In the fridge."))
        assert texts(anna) == {"Cake": ["Where is the cake?", "In the fridge.", "And the tea?", "In the pot."]}
        now = live(anna)
        assert ("fridge" in found_by(now), "oven" in found_by(now)) == (True, False)
        assert "Where is the cake?" in found_by(now)
        assert Message.objects.get(external_id="m1").text == "In the oven.", "past runs show what they read"
        assert is_lawful()

    def test_undo_brings_back_the_old_text_and_undo_of_that_the_new_one(self, anna: ChatUser, topic: Topic) -> None:
        taken(anna, worded(1, "In the fridge."), worded(3, "In the can."))
        edit = TopicEdit.objects.get(kind=TopicEdit.Kind.REWORD)
        for text, other in (("oven", "fridge"), ("fridge", "oven")):
            edit = curation.undo(anna, edit, actor="ada")
            assert text in texts(anna)["Cake"][1]
            assert (text in found_by(live(anna)), other in found_by(live(anna))) == (True, False)
            assert "Where is the cake?" in found_by(live(anna))
            assert is_lawful()

    def test_a_text_that_changes_twice_follows_the_last_one(self, anna: ChatUser, topic: Topic) -> None:
        taken(anna, worded(1, "In the fridge."))
        taken(anna, worded(1, "It is eaten."))
        assert texts(anna)["Cake"][1] == "It is eaten."
        curation.undo(anna, TopicEdit.objects.latest("pk"), actor="ada")
        assert texts(anna)["Cake"][1] == "In the fridge."

    def test_topics_edited_by_hand_keep_their_words(self, anna: ChatUser, topic: Topic) -> None:
        change = plan_edit(anna, topic.pk, "My cake")
        curation.swap(anna, change, kind="edit", actor="ada")
        before = live(anna).pk
        taken(anna, worded(1, "In the fridge."))
        assert (live(anna).pk, texts(anna)["My cake"][1]) == (before, "In the oven.")
        assert not TopicEdit.objects.filter(kind=TopicEdit.Kind.REWORD).exists()

    def test_a_message_that_no_topic_holds_is_exchanged_too(self, anna: ChatUser) -> None:
        add_messages(anna, [record(0, "Where is the cake?")])
        taken(anna, worded(0, "Where was the cake?"))
        assert [row.text for row in Message.objects.of(anna).active()] == ["Where was the cake?"]
        curation.undo(anna, TopicEdit.objects.get(), actor="ada")
        assert [row.text for row in Message.objects.of(anna).active()] == ["Where is the cake?"]
        assert is_lawful()

    def test_the_same_file_again_changes_nothing(self, anna: ChatUser, topic: Topic) -> None:
        taken(anna, worded(1, "In the fridge."))
        for text in ("In the fridge.", "In the oven."):
            found = sort_out(anna, [worded(1, text)])
            assert (found.known, list(found.changed), list(found.refused)) == (1, [], [])

    def test_kept_and_killed_it_is_taken_once(self, anna: ChatUser, topic: Topic) -> None:
        batch = ImportBatch.objects.create(owner=anna, source="a", format="jsonl")
        for _try in range(2):
            imports.keep(anna, batch, [worded(1, "In the fridge.")])
        assert [imports.take_wordings(anna, batch, actor="ada"), imports.take_wordings(anna, batch, actor="ada")] == [
            1,
            0,
        ]
        assert Message.objects.of(anna).count() == 5

    def test_changed_texts_are_not_withdrawn_as_an_import(self, anna: ChatUser, topic: Topic) -> None:
        with pytest.raises(CurationError, match="undo that in the history"):
            curation.withdraw(anna, taken(anna, worded(1, "In the fridge.")), actor="ada")


class TestAround:
    def test_an_export_has_both_wordings_and_restores_them(
        self, anna: ChatUser, boris: ChatUser, topic: Topic, folder: Path
    ) -> None:
        taken(anna, worded(1, "In the fridge."))
        path = folder / "anna.jsonl"
        path.write_text("".join(transfer.lines(anna)))
        transfer.restore(path, boris.name)
        assert texts(boris) == texts(anna)
        curation.undo(boris, TopicEdit.objects.get(owner=boris, kind=TopicEdit.Kind.REWORD), actor="ada")
        assert texts(boris)["Cake"][1] == "In the oven."

    @pytest.mark.slow
    def test_erasing_a_message_erases_all_its_wordings(self, anna: ChatUser, topic: Topic) -> None:
        taken(anna, worded(1, "In the fridge."))
        number = Message.objects.get(text="In the fridge.").pk
        erasure.finish(erasure.begin(Target(anna.pk, (number,)), "ada"))
        assert not Message.objects.filter(text__in=("In the oven.", "In the fridge.")).exists()

    @pytest.mark.slow
    def test_a_curator_takes_them_on_the_page_of_the_file(self, anna: ChatUser, as_admin: Client, folder: Path) -> None:
        lines = '{"id": "a", "role": "user", "ts": "2025-07-25T14:00:00Z", "text": "%s"}\n'
        for text in ("Where is the cake?", "Where was the cake?"):
            (folder / "received").write_text(lines % text)
            row = files.stage(anna, folder / "received", "chat.jsonl", "ada")
            tasks.import_waiting()
            address = f"/memory/{anna.pk}/imports/files/{row.pk}/"
            page = flat(as_admin.get(address).content.decode())
            assert ("Take 1 changed text" in page) == (text == "Where was the cake?")
            as_admin.post(address, {"do": "take"})
            tasks.import_waiting()
        assert "1 changed text was taken over." in flat(as_admin.get(address).content.decode())
        assert ImportFile.objects.latest("pk").findings["taken"] == 1
        assert [row.text for row in Message.objects.of(anna).active()] == ["Where was the cake?"]
        assert "took changed texts" in flat(as_admin.get(f"/memory/{anna.pk}/history/").content.decode())


# Documents beside a chat in its zip become artifacts of the messages that name them, once.


def imported(owner: ChatUser, folder: Path, files: dict[str, str]) -> ImportFile:
    with zipfile.ZipFile(folder / "received", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    row = import_files.stage(owner, folder / "received", "chat.zip", "ada")
    tasks.import_waiting()
    row.refresh_from_db()
    import_files.begin(row)
    tasks.import_waiting()
    row.refresh_from_db()
    assert row.state == ImportFile.State.DONE, row.fault
    return row


def lines(*paths: str) -> str:
    return json.dumps({"messages": [chat_line(id=path, attachments=[{"path": path}]) for path in paths]})


def test_what_a_message_names_becomes_its_artifact_and_nothing_else(anna: ChatUser, folder: Path) -> None:
    files = {"files/plan.txt": "The plan of the cake", "other/plan.txt": "Another", "secret.txt": "Nobody names it"}
    row = imported(anna, folder, {"chat.jsonl": lines("files/plan.txt", "gone.txt", "../secret"), **files})
    artifact = Artifact.objects.get()
    assert (artifact.name, artifact.message.external_id, row.findings["artifacts"]) == ("plan.txt", "files/plan.txt", 1)
    assert Media.objects.get().size_bytes == len("The plan of the cake")


@pytest.mark.parametrize(
    ("name", "chat"),
    [
        ("Export/result.json", json.dumps(telegram(sent(1, file="files/plan.txt")))),
        ("_chat.txt", "[25.07.24, 09:05:12] Anna: \u200e<attached: plan.txt>"),
    ],
)
def test_telegram_and_whatsapp_name_files_in_their_ways(anna: ChatUser, folder: Path, name: str, chat: str) -> None:
    imported(anna, folder, {name: chat, f"{name.rpartition('/')[0]}/files/plan.txt".strip("/"): "The plan"})
    assert Artifact.objects.get().name == "plan.txt"


def test_the_same_zip_again_makes_none_and_a_deleted_one_stays_gone(anna: ChatUser, folder: Path) -> None:
    files = {"chat.jsonl": lines("plan.txt"), "plan.txt": "The plan"}
    assert [imported(anna, folder, files).findings["artifacts"] for _again in range(2)] == [1, 0]
    knowledge.delete(anna, Artifact.objects.get(), actor="ada")
    assert imported(anna, folder, files).findings["artifacts"] == 0
    assert not Artifact.objects.exists()
