"""A format needs one module and its line in the registry: a made-up one is read like all others."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from memoryapp.importers import FORMATS, Hints, UnreadableFile, open_chat
from memoryapp.importers.format import Format, Reader, Records, TextLayout
from memoryapp.importers.record import Clock, Rejected, message
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord
from memoryapp.intake.transfer import files
from memoryapp.models import ChatUser, ImportBatch, ImportFile, Message, Operator
from memoryapp.upkeep import tasks
from tests.conftest import signed_in
from tests.support.browsing import flat
from tests.support.chats import sorted_out

LOG = "2025-05-13T14:30:00 <anna> Which cake?\n2025-05-13T14:31:00 <boris> Poppy seed.\nlater <anna> Thanks.\n"


def recognises(beginning: str) -> bool:
    return beginning[:2].isdigit() and " <" in beginning.partition("\n")[0]


def read(source: SourceFile, me: str, clock: Clock) -> Records:
    with source.opened() as file:
        for number, line in enumerate(file, start=1):
            time, _blank, rest = line.decode().rstrip("\n").partition(" <")
            author, _end, text = rest.partition("> ")
            digest = hashlib.sha256(line).hexdigest()[:16]
            role = "user" if author == me else "peer"
            try:
                at = clock.read(time)
                yield message(external_id=f"irc:{digest}", role=role, author=author, sent_at=at, text=text, line=number)
            except BadRecord as error:
                yield Rejected(number, str(error))


def open_text(source: SourceFile, hints: Hints) -> Reader:
    return Reader(partial(read, source, hints.me or hints.owner))


IRC = Format("irc", "IRC", (TextLayout(recognises, open_text, ("*.log",)),), asks_who=True, asks_zone=True)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    FORMATS[IRC.name] = IRC
    yield
    del FORMATS[IRC.name]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "room.txt"
    path.write_text(LOG)
    return path


def test_it_is_recognised_by_its_content_and_read(log: Path) -> None:
    chat = open_chat(log, hints=Hints("anna"))
    assert (chat.format, chat.users(), chat.is_distilled) == ("irc", set(), False)
    records, [rejected] = sorted_out(log, me="boris")
    assert [(record.role, record.text) for record in records] == [("peer", "Which cake?"), ("user", "Poppy seed.")]
    assert rejected.line == 3


def test_its_files_are_found_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rooms/a.log", LOG)
        archive.writestr("rooms/picture.jpg", "x")
    assert open_chat(path).format == "irc"
    assert len(sorted_out(path)[0]) == 2


def test_it_can_be_named_and_refusals_name_it(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("just words")
    assert open_chat(log, "irc").format == "irc"
    with pytest.raises(UnreadableFile, match=r"none of the formats .*\bIRC\b"):
        open_chat(other)
    with pytest.raises(UnreadableFile):
        open_chat(log, "whatsapp")


@pytest.mark.django_db
def test_the_command_imports_it_once(log: Path) -> None:
    def added() -> Any:
        out = io.StringIO()
        call_command("import_chat", str(log), "--user", "anna", "--format", "irc", "--json", stdout=out)
        return json.loads(out.getvalue())["messages_added"]

    assert [added(), added()] == [2, 0]
    assert ImportBatch.objects.first().format == "irc"
    assert Message.objects.count() == 2


@pytest.mark.django_db
def test_its_page_names_it_and_asks_what_it_does_not_say(
    anna: ChatUser, admin: Operator, log: Path, tmp_path: Path, settings: Any
) -> None:
    settings.IMPORT_DIR = tmp_path / "imports"
    row = files.stage(anna, log, "room.txt", "cora")
    tasks.import_waiting()
    assert ImportFile.objects.get().format == "irc"
    page = flat(signed_in(admin).get(f"/memory/{anna.pk}/imports/files/{row.pk}/").content.decode())
    assert "IRC ·" in page
    assert "Import 2 messages" in page
    assert 'name="me"' in page
    assert 'name="timezone"' in page
