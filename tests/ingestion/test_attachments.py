"""Documents beside a chat in its zip become artifacts of the messages that name them, once."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memoryapp.curation import knowledge
from memoryapp.intake.transfer import files as import_files
from memoryapp.models import Artifact, ChatUser, ImportFile, Media
from memoryapp.upkeep import tasks
from tests.support.chats import chat_line, sent, telegram

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.IMPORT_DIR = tmp_path / "imports"
    settings.MEDIA_ROOT = tmp_path / "files"
    return tmp_path


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
