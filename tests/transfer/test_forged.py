"""A file is hostile until proven otherwise: forged lines are refused with their number, and take nothing of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem
from memoryapp.importers.record import UnreadableFile
from memoryapp.intake import transfer
from memoryapp.intake.invariants import violations
from memoryapp.intake.transfer.checking import SHAPES
from memoryapp.intake.transfer.exporting import columns, exported
from memoryapp.memory import content
from memoryapp.models import AgentCall, ChatUser, KnowledgeEdit, Media, Suggestion, TopicEdit
from rerankui.curation.change_form import actor_words
from tests.transfer.test_transfer import export, filled

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

HASH = "ab" * 32


@pytest.fixture
def lines(anna: ChatUser, tmp_path: Path) -> list[dict[str, Any]]:
    filled(anna)
    return [json.loads(line) for line in export(anna, tmp_path / "anna.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"


def restored(lines: list[dict[str, Any]], folder: Path) -> transfer.Restored:
    path = folder / "forged.jsonl"
    body = [line for line in lines if line.get("mnemoscope") != "end"]
    whole = [*body, {"mnemoscope": "end", "lines": len(body)}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in whole))
    return transfer.restore(path, "copy")


@pytest.mark.parametrize(
    ("kind", "forged"),
    [
        ("chatuser", {"silence_seconds": 1}),
        ("chatuser", {"topic_messages": 9_999_999}),
        ("chatuser", {"topic_messages": 900, "session_messages": 2}),
        ("chatuser", {"profile": "x" * 17_000}),
        ("suggestion", {"evidence": {}}),
        ("suggestion", {"topics": [1]}),
        ("knowledgeedit", {"before": {"1": None}, "after": {"1": {"owner_id": 1}}}),
        ("knowledgeedit", {"after": {"2": None}}),
        ("knowledgeedit", {"undoes_id": 10**6}),
        ("topic", {"size_chars": -1}),
        ("topic", {"is_live": False}),
        ("topicmessage", {"topic_id": 10**6}),
        ("topicedit", {"at": "soon"}),
        ("editedtopic", {"side": "beside"}),
        ("person", {"circle": "Enemies"}),
        ("person", {"aliases": [[]]}),
        ("fact", {"importance": 101}),
        ("artifact", {"sha256": "../../secret_key"}),
        ("artifact", {"fault_note": {"code": "endpoint_late", "values": {}}}),
        ("importbatch", {"rejected": "x"}),
    ],
)
def test_a_forged_value_is_named_with_its_line_and_nothing_is_restored(
    kind: str, forged: dict[str, Any], lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    at = next(at for at, line in enumerate(lines) if line.get("mnemoscope") == kind)
    whole = dict(lines[at])
    lines[at].update(forged)
    with pytest.raises(UnreadableFile, match="cannot be restored"):
        restored(lines, tmp_path)
    assert not ChatUser.objects.filter(name="copy").exists()
    lines[at] = whole
    restored(lines, tmp_path)
    assert list(violations()) == []


def test_a_row_that_comes_twice_is_named_with_its_line(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    at = max(at for at, line in enumerate(lines) if line.get("mnemoscope") == "artifact")
    lines.insert(at + 1, {**lines[at], "n": 10**6})
    with pytest.raises(UnreadableFile, match=f"Line {at + 2} of"):
        restored(lines, tmp_path)


def test_the_file_of_another_memory_is_not_claimed_by_its_hash(
    lines: list[dict[str, Any]], boris: ChatUser, tmp_path: Path
) -> None:
    item = MediaItem(HASH, "file", "text/plain", "secret.txt", 6)
    content.store(boris, MediaContent(item, b"secret"))
    values = {"type": "file", "name": "secret.txt", "created_at": "2026-01-01T00:00:00+00:00"}
    there = {"mnemoscope": "media", "n": 1, "sha256": HASH, "size_bytes": 6, **values}
    nowhere = {**there, "n": 2, "sha256": "cd" * 32}
    assert restored([*lines[:-1], there, nowhere], tmp_path).missing_files == 2
    assert list(Media.objects.values_list("owner__name", flat=True)) == ["boris"]


def test_a_file_that_this_memory_has_already_stays(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    copy = ChatUser.objects.create(name="copy")
    content.store(copy, MediaContent(MediaItem(HASH, "file", "text/plain", "mine.txt", 4), b"mine"))
    values = {"type": "file", "created_at": "2026-01-01T00:00:00+00:00"}
    line = {"mnemoscope": "media", "n": 1, "sha256": HASH, "size_bytes": 4, **values}
    assert restored([*lines[:-1], line], tmp_path).missing_files == 0
    assert Media.objects.get().owner == copy


def test_references_to_what_an_export_leaves_out_are_dropped(
    lines: list[dict[str, Any]], boris: ChatUser, tmp_path: Path
) -> None:
    call = AgentCall.objects.create(owner=boris, agent="merger", model="secret")
    for line in lines:
        if line.get("mnemoscope") in ("knowledgeedit", "topicedit", "suggestion"):
            line.update(call_id=call.pk, held_by_id=1)
    restored(lines, tmp_path)
    for model in (KnowledgeEdit, TopicEdit, Suggestion):
        assert set(model.objects.filter(owner__name="copy").values_list("call", flat=True)) == {None}
    assert list(violations()) == []


def test_who_did_it_is_marked_as_what_the_file_says(
    lines: list[dict[str, Any]], tmp_path: Path, as_admin: Client
) -> None:
    restored(lines, tmp_path)
    copy = ChatUser.objects.get(name="copy")
    [actor] = set(KnowledgeEdit.objects.filter(owner=copy).values_list("actor", flat=True))
    assert actor != "ada"
    page = as_admin.get(reverse("history", args=[copy.pk])).content.decode()
    assert actor_words(actor) in page
    with translation.override("ru"):
        assert actor_words(actor) == "ada (по словам восстановленного файла)"
    again = [json.loads(line) for line in transfer.lines(copy)]
    assert {line["actor"] for line in again if line.get("mnemoscope") == "knowledgeedit"} == {"ada"}


def test_every_column_of_json_or_a_list_has_a_shape() -> None:
    every = {(model, column.attname) for model in exported() for column in columns(model)}
    kinds = ("JSONField", "ArrayField")
    named = {pair for pair in every if pair[0]._meta.get_field(pair[1]).get_internal_type() in kinds}
    assert set(SHAPES) == named
