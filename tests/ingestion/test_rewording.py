"""Changed texts that a person takes from a file: the new wording replaces the old one, and an undo restores it."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from memoryapp import curation, erasure
from memoryapp.curation import CurationError, plan_edit
from memoryapp.erasure import Target
from memoryapp.importers import MessageRecord
from memoryapp.intake import imports, invariants, transfer
from memoryapp.intake.messages import add_messages, sort_out
from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, ImportBatch, ImportFile, Message, Passage, Topic, TopicEdit
from memoryapp.upkeep import tasks
from tests.conftest import BEGAN, record, talk
from tests.support.browsing import flat

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.IMPORT_DIR = tmp_path / "imports"
    settings.DATA_DIR = tmp_path
    settings.MEDIA_ROOT = tmp_path / "files"
    return tmp_path


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
