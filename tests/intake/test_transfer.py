"""A memory is exported and restored, and only its numbers change."""

import io
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import knowledge
from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.importers import read
from memoryapp.importers.record import LeftOut, MessageRecord, Rejected, UnreadableFile
from memoryapp.intake import transfer
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.intake.transfer.exporting import LEFT_OUT, exported
from memoryapp.models import (
    Artifact,
    ChatUser,
    Fact,
    ImportBatch,
    KnowledgeEdit,
    Message,
    Person,
    Suggestion,
    Topic,
    TopicEdit,
)
from memoryapp.models.user import Owned
from tests.conftest import fact_of, record, talk

pytestmark = pytest.mark.django_db

WHOLE = "whole"
EVIDENCE = {
    **{"similarity": 0.8, "threshold": 0.7, "people": ["Dasha"], "together": 0, "runs": 0},
    **{"size_chars": 9, "days_apart": 0, "merger": asdict(MergeVerdict(False, "", ""))},
}


def filled(owner: ChatUser) -> None:
    """Creates every kind of row, with edits that were undone, an import that was withdrawn, and unusual metadata."""
    ChatUser.objects.filter(pk=owner.pk).update(profile="Likes tea", silence_seconds=90, consolidation="off")
    owner.refresh_from_db()
    at = timezone.now()
    first, second, third = talk(
        owner, ("Tea", ["green?", "yes"]), ("Cake", ["with plums?", "always"]), ("Rye", ["bread", "yes"])
    )
    merged = curation.swap(
        owner, curation.plan_merge(owner, [first.pk, second.pk]), kind=TopicEdit.Kind.MERGE, actor="ada", reason="one"
    )
    curation.undo(owner, merged, actor="ada")
    curation.swap(owner, curation.plan_edit(owner, third.pk, "Rye bread"), kind="edit", actor="ada")
    batch = ImportBatch.objects.create(
        owner=owner, source="a.json", format="jsonl", rejected=[{"line": 3, "reason": "x"}]
    )
    add_messages(owner, [record(40, "withdrawn words"), record(41, "and more")], batch=batch)
    curation.withdraw(owner, batch, actor="ada")
    add_messages(owner, [record(50, "still going on")])
    Message.objects.filter(owner=owner, external_id="m50").update(
        metadata={"attachments": [{"name": "plan.pdf"}], "id": "clashes", "text": 7, "user": None},
        session="s",
        reply_to="m1",
    )
    distilled(owner, first, at)
    key = f"merge-{first.pk}-{second.pk}"
    Suggestion.objects.create(
        owner=owner, kind="merge", key=key, topics=[first.pk, second.pk], state="never", evidence=EVIDENCE
    )


def distilled(owner: ChatUser, topic: Topic, at: Any) -> None:
    message = Message.objects.of(owner).in_order()[0]
    made = knowledge.create(owner, KnowledgeEdit.Noun.PERSON, {"display_name": "Dasha", "aliases": ["D"]}, actor="ada")
    person = Person.objects.get(pk=int(next(iter(made.after))))
    knowledge.edit(owner, person, {"bio": "bakes"}, actor="ada")
    Person.objects.create(owner=owner, display_name="Dasha", circle="Work_Inner", bio="a namesake")
    other = Person.objects.create(owner=owner, display_name="Dasha P.", bio="runs")
    knowledge.merge_people(owner, person, [other], actor="ada")
    fact = knowledge.create(
        owner,
        KnowledgeEdit.Noun.FACT,
        {"relation": "likes", "category": "food", "content": "plums", "type": "status", "importance": 40},
        actor="ada",
        topic=topic,
    )
    gone = fact_of(owner, "old", topic, relation="is", importance=1, created_at=at)
    knowledge.delete(owner, gone, actor="ada")
    assert fact.after
    Artifact.objects.create(
        owner=owner, message=message, file_type="pdf", name="plan.pdf", sha256="2" * 64, created_at=at, keywords=["a"]
    )


def export(owner: ChatUser, path: Path) -> Path:
    path.write_text("".join(transfer.lines(owner)), encoding="utf-8")
    return path


def settled() -> None:
    """What the database looks at when a transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


REFERENCES = {
    **{"topic_id": "topic", "message_id": "place", "edit_id": "topicedit", "batch_id": "importbatch"},
    **{"topic": "topic", "batch": "importbatch"},
}


def canonical(path: Path) -> list[Any]:
    """Returns the lines with the memory's numbers and names replaced by their positions among their kind."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    numbers: dict[tuple[str, Any], str] = {}
    for line in lines:
        if "n" in line:
            numbers[line["mnemoscope"], line["n"]] = f"{line['mnemoscope']}#{len(numbers)}"
    return [renamed(line, numbers) for line in lines]


def renamed(line: dict[str, Any], numbers: dict[tuple[str, Any], str]) -> dict[str, Any]:
    kind = line.get("mnemoscope")
    kinds = {**REFERENCES, "n": kind, "undoes_id": kind}
    new = {
        name: numbers.get((kinds[name], value), "gone") if name in kinds and kind and value is not None else value
        for name, value in line.items()
        if name not in ("updated_at", "user")
    }
    for side in ("before", "after") if kind == "knowledgeedit" else ():
        new[side] = [
            (numbers.get((line["noun"], int(number)), "gone"), row and renamed({**row, "mnemoscope": "row"}, numbers))
            for number, row in line[side].items()
        ]
    if kind == "suggestion":
        new["topics"], new["key"] = [numbers["topic", number] for number in line["topics"]], "key"
    return new


@pytest.fixture
def file(anna: ChatUser, tmp_path: Path) -> Path:
    filled(anna)
    return export(anna, tmp_path / "anna.jsonl")


@pytest.mark.slow
def test_export_import_export_is_equal_up_to_numbers(file: Path, tmp_path: Path) -> None:
    restored = transfer.restore(file, "copy")
    settled()
    again = export(ChatUser.objects.get(name="copy"), tmp_path / "copy.jsonl")
    assert canonical(again) == canonical(file)
    assert restored.counts["message"] == Message.objects.filter(owner__name="copy").count() == 9
    assert list(violations()) == []


@pytest.mark.slow
def test_what_is_restored_can_be_undone_like_the_original(file: Path) -> None:
    transfer.restore(file, "copy")
    copy = ChatUser.objects.get(name="copy")
    withdrawn = TopicEdit.objects.get(owner=copy, kind="withdraw")
    curation.undo(copy, withdrawn, actor="eve")
    change = KnowledgeEdit.objects.filter(owner=copy, kind="delete").get()
    knowledge.undo(copy, change, actor="eve")
    merged = KnowledgeEdit.objects.filter(owner=copy, kind="merge").get()
    knowledge.undo(copy, merged, actor="eve")
    settled()
    assert Fact.objects.filter(owner=copy, content="old").exists()
    people = Person.objects.filter(owner=copy).order_by("pk").values_list("display_name", "bio")
    assert sorted(people) == [("Dasha", "a namesake"), ("Dasha", "bakes"), ("Dasha P.", "runs")]
    assert Message.objects.of(copy).present().count() == 9
    assert list(violations()) == []


@pytest.mark.slow
def test_other_importers_read_the_messages_alone(file: Path, anna: ChatUser) -> None:
    found = list(read(file))
    # A row that is no message is left out, and says so.
    assert not [item for item in found if isinstance(item, Rejected) and not isinstance(item, LeftOut)]
    by_id = {item.external_id: item for item in found if isinstance(item, MessageRecord)}
    assert {name: item.text for name, item in by_id.items()} == dict(
        Message.objects.of(anna).values_list("external_id", "text")
    )
    assert by_id["m50"].metadata["attachments"] == [{"name": "plan.pdf"}]


def test_every_row_of_a_memory_is_exported_or_named_as_left_out() -> None:
    owned = {model for model in apps.get_app_config("memoryapp").get_models() if issubclass(model, Owned)}
    assert {*exported(), Message} | LEFT_OUT == owned
    assert not set(exported()) & LEFT_OUT


def damaged(file: Path, how: str) -> Iterator[str]:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    if how == "cut":
        yield from lines[:-5]
    elif how == "broken":
        yield from (*lines[:3], "{nonsense\n", *lines[4:])
    elif how == "strange":
        end = json.dumps({"mnemoscope": "end", "lines": len(lines)})
        yield from (*lines[:-1], '{"mnemoscope":"martian","n":1}\n', end)
    else:
        yield from ('{"mnemoscope":99,"user":"anna"}\n', *lines[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("cut", "cut off before its end"),
        ("broken", "Line 4 of"),
        ("strange", "no such row"),
        ("later", "another version"),
    ],
)
def test_a_damaged_file_restores_nothing(how: str, sentence: str, file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("".join(damaged(file, how)), encoding="utf-8")
    with pytest.raises(UnreadableFile, match=sentence):
        transfer.restore(bad, "copy")
    assert not ChatUser.objects.filter(name="copy").exists()
    transfer.restore(file, "copy")
    assert Topic.objects.filter(owner__name="copy").exists()


def run(name: str, *arguments: str) -> Any:
    out = io.StringIO()
    call_command(name, *arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


@pytest.mark.slow
def test_the_commands(file: Path, anna: ChatUser, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    assert run("export_user", "anna", str(target))["lines"] == len(target.read_text().splitlines())
    assert target.read_text() == file.read_text()
    assert target.stat().st_mode & 0o077 == 0
    answer = run("import_chat", str(target), "--user", "copy")
    assert (answer["messages_added"], answer["restored"]["topicedit"]) == (
        9,
        TopicEdit.objects.filter(owner=anna).count(),
    )
    again = run("import_chat", str(target), "--user", "copy")
    assert (again["messages_added"], again["messages_skipped"]) == (0, 9)
    with pytest.raises(CommandError, match="cannot be written"):
        run("export_user", "anna", str(tmp_path / "no" / "such" / "folder"))


def test_an_export_into_a_pipe_leaves_the_pipe(anna: ChatUser, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text, encoding="utf-8")
        lines = run("export_user", "anna", str(pipe))["lines"]
        assert len(read.result().splitlines()) == lines
    assert pipe.is_fifo()


def test_an_export_to_a_link_is_in_the_file_behind_it(anna: ChatUser, tmp_path: Path) -> None:
    link, target = tmp_path / "link.jsonl", tmp_path / "target.jsonl"
    link.symlink_to(target)
    run("export_user", "anna", str(link))
    assert link.is_symlink()
    assert transfer.recognises(target)
