"""mem0: memories become facts of the user whom they name, once, and can be taken back with the import."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from memoryapp.importers import Distilled, Hints, LeftOut, Rejected, open_chat
from memoryapp.models import ChatUser, Fact, Message
from tests.importers.other_chats import memory
from tests.support.chats import lines, written

BACKUP = {
    "user": {"id": "1", "user_id": "anna", "name": "Anna"},
    "apps": [],
    "categories": [{"id": "k1", "name": "food"}],
    "memories": [
        {"id": "a", "user_id": "1", "content": "Likes oolong", "state": "active", "category_ids": ["k1"]},
        {"id": "b", "user_id": "1", "content": "Old", "state": "deleted", "category_ids": []},
    ],
    "export_meta": {"version": "1"},
}


def facts(path: Path) -> list[tuple[str, str, str]]:
    found = [item for item in open_chat(path).distilled() if isinstance(item, Distilled)]
    return [(item.user, item.values["category"], item.values["content"]) for item in found]


@pytest.mark.parametrize(
    "value",
    [
        {"results": [memory(categories=["food"])], "relations": []},
        {"count": 1, "next": None, "results": [memory(categories=["food"])]},
        [memory(categories=["food"])],
        {"memories": [memory(categories=["food"])]},
    ],
)
def test_answers_of_get_all_are_read(tmp_path: Path, value: Any) -> None:
    """docs.mem0.ai: version 1 returns a list, 1.1 an object with results, the platform one with count."""
    path = written(tmp_path, value)
    assert facts(path) == [("anna", "food", "Likes oolong")]
    assert open_chat(path).users() == {"anna"}


def test_points_of_a_vector_store_and_lines_are_read(tmp_path: Path) -> None:
    """mem0 keeps the text as ``data`` in the payload of its vector store; mem0-ts/src/oss writes ``createdAt``."""
    point = {"id": "1", "payload": {"data": "Likes oolong", "hash": "h", "user_id": "anna", "created_at": "2025-07-01"}}
    of_typescript = {"id": "1", "memory": "Likes oolong", "createdAt": "2025-07-01", "userId": "anna"}
    assert facts(written(tmp_path, {"results": [of_typescript]}, "ts.json")) == [("anna", "mem0", "Likes oolong")]
    assert facts(written(tmp_path, [point])) == [("anna", "mem0", "Likes oolong")]
    assert facts(lines(tmp_path, memory(), memory(2, "Has a cat", user_id="boris"))) == [
        ("anna", "mem0", "Likes oolong"),
        ("boris", "mem0", "Has a cat"),
    ]


def test_the_backup_of_openmemory_is_read(tmp_path: Path) -> None:
    """openmemory/api/app/routers/backup.py: a zip of memories.json and memories.jsonl.gz, which have the same."""
    backup = json.loads(json.dumps(BACKUP))
    for item in backup["memories"]:
        item["created_at"] = "2025-07-01T10:00:00+00:00"
    line = {"id": "a", "content": "Likes oolong", "state": "active", "categories": ["food"], "created_at": "2025-07-01"}
    path = tmp_path / "memories_export_anna.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("memories.json", json.dumps(backup))
        archive.writestr("memories.jsonl.gz", gzip.compress(json.dumps(line).encode()))
    assert facts(path) == [("anna", "food", "Likes oolong")]
    assert [item.reason for item in open_chat(path).distilled() if isinstance(item, LeftOut)] == [
        "it was deleted or archived there"
    ]
    alone = tmp_path / "memories.jsonl.gz"
    alone.write_bytes(gzip.compress(json.dumps(line).encode()))
    assert facts(alone) == [("", "food", "Likes oolong")]


@pytest.mark.django_db
def test_an_import_adds_the_facts_once_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, {"results": [memory(), memory(2, ""), memory(3, "Has a cat")]})

    def imported() -> dict[str, Any]:
        out = io.StringIO()
        call_command("import_chat", str(path), user="anna", json=True, stdout=out)
        found: dict[str, Any] = json.loads(out.getvalue())
        return found

    first, second = imported(), imported()
    assert first["users"] == ["anna"]
    assert (first["brought"], first["brought_before"]) == ({"fact": 2}, {})
    assert [item["line"] for item in first["not_brought"]] == ["results[1]"]
    assert (second["brought"], second["brought_before"]) == ({}, {"fact": 2})
    anna = ChatUser.objects.get(name="anna")
    assert sorted(Fact.objects.filter(owner=anna).values_list("content", flat=True)) == ["Has a cat", "Likes oolong"]
    assert not Message.objects.exists()


@pytest.mark.django_db
def test_memories_of_several_users_go_to_each_of_them(tmp_path: Path) -> None:
    path = written(tmp_path, [memory(), memory(2, "Has a cat", user_id="boris")])
    call_command("import_chat", str(path), user="carol", json=True, stdout=io.StringIO(), stderr=io.StringIO())
    assert dict(Fact.objects.values_list("content", "owner__name")) == {"Likes oolong": "anna", "Has a cat": "boris"}


def test_memories_without_times_get_them_from_the_start_that_is_given(tmp_path: Path) -> None:
    timeless = written(tmp_path, {"results": [memory(created_at=None), memory(2, "Likes milk", created_at=None)]})
    [first, _second] = open_chat(timeless).distilled()
    assert isinstance(first, Rejected)
    assert "--start" in first.reason
    start = datetime(2024, 5, 1, tzinfo=UTC)
    dated = list(open_chat(timeless, hints=Hints(start=start)).distilled())
    assert [item.values["created_at"].minute for item in dated if isinstance(item, Distilled)] == [0, 1]
