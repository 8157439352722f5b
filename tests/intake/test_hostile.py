"""A file is hostile until proven otherwise: whatever stands in an export, nothing outside its memory changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import translation
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memoryapp import curation
from memoryapp.curation import CurationError, knowledge
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem
from memoryapp.importers.formats.memories.jsonl import conversation
from memoryapp.importers.record import Clock, MessageRecord, UnreadableFile
from memoryapp.importers.values import BadRecord
from memoryapp.intake import transfer
from memoryapp.intake.invariants import violations
from memoryapp.intake.transfer.checking import SHAPES, checked
from memoryapp.intake.transfer.exporting import columns, exported, label
from memoryapp.memory import content
from memoryapp.models import (
    AgentCall,
    Artifact,
    ChatUser,
    Fact,
    Finding,
    FindingMessage,
    GuardSpot,
    KnowledgeEdit,
    Media,
    Message,
    Pause,
    Person,
    StoredItem,
    Suggestion,
    Topic,
    TopicEdit,
    UnreadTopic,
)
from memoryapp.models.user import Owned
from rerankui.curation.change_form import actor_words
from tests.intake.test_transfer import export, filled, settled

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

SPLIT = {
    **{"at": [], "size_chars": 90, "gain": 0.5, "similarity": 0.2, "usual": 0.4, "pause_seconds": 90_000.0},
    **{"parts": [[1, 10], [1, 10]], "limit": 80},
}
# The pages that show rows of a kind; the history shows every memory.
PAGES = {
    **dict.fromkeys(("topic", "topicmessage", "message", "place"), ("topics", "messages", "topic_map")),
    **dict.fromkeys(("topicedit", "editedtopic", "knowledgeedit"), ("undo_range",)),
    **dict.fromkeys(("finding", "findingmessage", "unreadtopic"), ("review", "extraction", "memory_pipeline")),
    "person": ("people",),
    "fact": ("facts",),
    "artifact": ("artifacts", "memory_pipeline"),
    "suggestion": ("queue",),
    "importbatch": ("imports",),
    "pause": ("memory_pipeline",),
    "chatuser": ("memory", "memory_settings"),
}
ROWS = {"person": Person, "fact": Fact, "artifact": Artifact, "suggestion": Suggestion, "finding": Finding}
NUMBERS = (-1, 0, 1, 2**15, 2**31, 2**63, 2**64 + 1, 10**400, 1e308, -0.5)
TEXTS = ("", "x" * 301, "\x00\ud800", "../../secret_key", "%(x)s {y}", "NaN", "0001-01-01", "9999-12-31T23:59:59-12")
ODD = (None, True, [], {}, [[]], {"a": None}, {"1": None}, [None, 1, "x"])
MODELS = {label(model): model for model in [*exported(), ChatUser]}


@pytest.fixture
def law(anna: ChatUser, boris: ChatUser, tmp_path: Path, as_admin: Client) -> Law:
    """Anna's memory, which nothing may reach, and the lines of a hostile file."""
    for owner in (anna, boris):
        filled(owner)
        decided(owner)
    lines = [json.loads(line) for line in export(boris, tmp_path / "boris.jsonl").read_text().splitlines()]
    return Law(anna, lines, tmp_path / "hostile.jsonl", as_admin, fingerprint(anna))


def decided(owner: ChatUser) -> None:
    """Adds what waits for a decision, and what was left undone."""
    topic, other = Topic.objects.of(owner).live()[:2]
    message = topic.message_set.in_order()[0]
    edit = KnowledgeEdit.objects.filter(owner=owner, noun="person").order_by("pk")[0]
    past = Fact.objects.get(owner=owner)
    values = {"relation": "likes", "category": "food", "content": "figs", "type": "status", "importance": 9}
    knowledge.replace(owner, past, values, actor="ada")
    file = Artifact.objects.get(owner=owner)
    change = knowledge.edit(owner, file, {"summary": "A plan."}, actor="ada")
    knowledge.undo(owner, change, actor="ada")
    note = {"code": "endpoint_late", "values": {"host": "h", "seconds": 2.5}}
    Artifact.objects.filter(pk=file.pk).update(state="failed", fault="late", fault_note=note)
    fact = Finding.objects.create(owner=owner, noun="fact", topic=topic, values=values, alike=[past.pk], target=past.pk)
    FindingMessage.objects.create(owner=owner, finding=fact, message=message)
    GuardSpot.objects.create(owner=owner, message=message, kind="cards", state="marked")
    person = {"display_name": "Egon", "aliases": ["E"], "bio": "A vet.", "circle": "Other", "username": ""}
    Finding.objects.create(
        owner=owner, noun="person", topic=other, values=person, state="confirmed", edit=edit, row=1, decided_by="ada"
    )
    StoredItem.objects.create(
        owner=owner,
        namespace=["plans", "2026"],
        key="trip",
        value={"to": "Tbilisi", "days": [2, 3]},
        text="A trip to Tbilisi",
        created_at=message.sent_at,
        updated_at=message.sent_at,
    )
    UnreadTopic.objects.create(owner=owner, topic=other, state="failed", due_at=message.sent_at, fault="late")
    Pause.objects.create(owner=owner, kind="extract", by="ada")
    Suggestion.objects.update(state="open")
    split = {**SPLIT, "at": [topic.message_set.in_order()[1].pk]}
    key = f"split-{topic.pk}"
    Suggestion.objects.create(owner=owner, kind="split", key=key, topics=[topic.pk], evidence=split, decided_by="ada")


@dataclass
class Law:
    victim: ChatUser
    lines: list[dict[str, Any]]
    path: Path
    client: Client
    before: list[Any]

    def places(self, kind: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yields each place in the lines of a kind once, as the index of a line and the path inside it."""
        seen = set()
        for index, line in enumerate(self.lines):
            for path in paths(line) if str(line.get("mnemoscope", "message")) == kind else ():
                steps = ("#" if str(step).isdigit() else step for step in path)
                shape = (str(line.get("noun")), str(line.get("kind")), *steps)
                if path != ("mnemoscope",) and shape not in seen:
                    seen.add(shape)
                    yield index, path

    def takes(self, forged: list[tuple[int, tuple[Any, ...], Any]]) -> None:
        """Puts the values into the file, without those for which it is then refused."""
        before = list(self.lines)
        for index, path, value in forged:
            self.lines[index] = json.loads(json.dumps(self.lines[index]))
            put(self.lines[index], path, value)
        if forged and not (all(_is_read(self.lines[index]) for index, *_rest in forged) and self.is_restored()):
            self.lines = before
            half = len(forged) // 2
            if half:
                self.takes(forged[:half])
                self.takes(forged[half:])

    def is_restored(self, *kinds: str) -> bool:
        """Restores the file; for ``kinds`` also undoes and redoes every change, and looks at their pages. A file that
        is refused is refused with a sentence."""
        self.path.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines))
        refused = ""
        try:
            with transaction.atomic():
                transfer.restore(self.path, "copy")
                if kinds:
                    self._lived(ChatUser.objects.get(name="copy"), kinds)
                transaction.set_rollback(True)
        except UnreadableFile as error:
            refused = str(error)
        assert not refused or "cannot be restored" in refused
        assert fingerprint(self.victim) == self.before
        return not refused

    def _lived(self, copy: ChatUser, kinds: Sequence[str]) -> None:
        settled()
        self._looked_at(copy, kinds)
        for _again in range(2):
            for model, undo in ((KnowledgeEdit, knowledge.undo), (TopicEdit, curation.undo)):
                for edit in model.objects.filter(owner=copy).order_by("-pk"):
                    with suppress(CurationError), transaction.atomic():
                        undo(copy, edit, actor="eve")
                        settled()
        assert list(violations()) == []
        assert fingerprint(self.victim) == self.before
        self._looked_at(copy, kinds)

    def _looked_at(self, copy: ChatUser, kinds: Sequence[str]) -> None:
        lists = dict.fromkeys(("history", *(name for kind in kinds for name in PAGES.get(kind, ()))))
        addresses = [reverse(name, args=[copy.pk]) for name in lists]
        for kind in ROWS.keys() & set(kinds):
            rows = ROWS[kind]._default_manager.filter(owner=copy)
            addresses += [reverse(kind, args=[copy.pk, row.pk]) for row in rows]
        if "topic" in kinds:
            addresses += [reverse("topic", args=[topic.pk]) for topic in Topic.objects.of(copy)[:2]]
        for address in addresses:
            assert self.client.get(address).status_code < 500


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of each value inside this one, and in each object that of one more name."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*at, key)
        if len(at) < 4:
            yield from paths(item, (*at, key))
    if isinstance(value, dict) and at:
        yield from ((*at, name) for name in ("owner_id", "id", "call_id"))


def _is_read(line: dict[str, Any]) -> bool:
    """Whether a line passes the first check; most hostile ones do not, and need no restore to be refused."""
    model = MODELS.get(str(line.get("mnemoscope")))
    try:
        if model:
            checked(model, line)
        elif "mnemoscope" not in line:
            beside = {name: value for name, value in line.items() if name != "metadata"}
            return all(isinstance(item, MessageRecord) for item in conversation(beside, 1, Clock(any_dates=True)))
    except BadRecord:
        return False
    return True


def put(line: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    *way, last = path
    at: Any = line
    # What was put in before may have taken the place of what this one was inside.
    with suppress(TypeError, IndexError, KeyError):
        for step in way:
            at = at[step]
        at[last] = value


def fingerprint(owner: ChatUser) -> list[Any]:
    """All rows of a memory, as the database writes them."""
    owned = [each for each in apps.get_app_config("memoryapp").get_models() if issubclass(each, Owned)]
    rows = "SELECT md5(string_agg(x::text, '|' ORDER BY x::text)) FROM {} x WHERE owner_id = {}"
    queries = [f"({rows.format(model._meta.db_table, owner.pk)})" for model in owned]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(queries)}, (SELECT u::text FROM memoryapp_chatuser u WHERE id = {owner.pk})")
        return list(cursor.fetchone())


def values(victim: ChatUser, place: int) -> st.SearchStrategy[Any]:
    """Values of every kind; which is the simplest depends on the place, so that few examples try many."""
    theirs = (victim.pk, Topic.objects.of(victim)[0].pk, Message.objects.of(victim)[0].pk)
    listed = [*theirs, *NUMBERS, *TEXTS, *ODD, "ы" * 300_000]
    turned = listed[place % len(listed) :] + listed[: place % len(listed)]
    return st.one_of(st.sampled_from(turned), st.text(max_size=40))


# What a file contains, by what its values can break together: the talk, its rows, their history, what waits.
GROUPS = {
    "talk": ("message", "place", "topic", "topicmessage", "editedtopic"),
    "rows": ("person", "fact", "artifact", "chatuser", "storeditem"),
    "history": ("topicedit", "knowledgeedit", "importbatch"),
    "decisions": ("suggestion", "finding", "findingmessage", "unreadtopic", "pause", "guardspot"),
}


def test_every_kind_of_line_is_in_a_group() -> None:
    every = {"message", "place", "chatuser", *map(label, exported())} - {"media"}
    assert sorted(kind for group in GROUPS.values() for kind in group) == sorted(every)


@pytest.mark.parametrize("group", GROUPS)
def test_no_value_of_a_file_reaches_another_memory_or_breaks_its_own(group: str, law: Law) -> None:
    kinds, whole = GROUPS[group], list(law.lines)
    places = [(kind, list(law.places(kind))) for kind in kinds]
    assert all(found for _kind, found in places)

    @settings(max_examples=1, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.data())
    def each(data: st.DataObject) -> None:
        law.lines = list(whole)
        for _kind, found in places:
            law.takes([(*at, data.draw(values(law.victim, place))) for place, at in enumerate(found)])
        assert law.is_restored(*kinds)

    each()


def test_the_file_itself_is_restored_and_all_of_it_can_be_undone(law: Law) -> None:
    assert law.is_restored("finding")


def test_edits_whose_sides_a_file_exchanged_are_refused(law: Law) -> None:
    for line in law.lines:
        if line.get("mnemoscope") == "editedtopic":
            line["side"] = "in" if line["side"] == "out" else "out"
    assert not law.is_restored()


def test_the_undo_of_a_change_that_a_file_made_up_is_refused_with_a_sentence(law: Law) -> None:
    """The merged topic goes by another edit than in truth, so one undo would bring back its messages beside themselves,
    and another would leave messages without a topic."""
    undone, edited = (
        next(line["n"] for line in law.lines if line.get("mnemoscope") == "topicedit" and line["kind"] == kind)
        for kind in ("undo", "edit")
    )
    for line in law.lines:
        if line.get("mnemoscope") == "editedtopic" and (line["edit_id"], line["side"]) == (undone, "out"):
            line["edit_id"] = edited
    assert law.is_restored("editedtopic")
    transfer.restore(law.path, "copy")
    copy = ChatUser.objects.get(name="copy")
    for kind in ("undo", "edit"):
        with pytest.raises(CurationError, match="in no topic, or in two"):
            curation.undo(copy, TopicEdit.objects.get(owner=copy, kind=kind), actor="eve")
    assert list(violations()) == []
    topic = Topic.objects.of(copy).live()[0]
    made = curation.swap(copy, curation.plan_edit(copy, topic.pk, "Plums"), kind="edit", actor="eve")
    curation.undo(copy, made, actor="eve")
    settled()


@pytest.mark.parametrize("time", [2**31, "1767225600"])
def test_a_time_of_the_history_is_a_text_that_its_undo_can_read(time: Any, law: Law) -> None:
    for line in law.lines:
        for row in (*(line.get("before") or {}).values(), *(line.get("after") or {}).values()):
            if row and "created_at" in row:
                row["created_at"] = time
    assert not law.is_restored("knowledgeedit")


# A file is hostile until proven otherwise: forged lines are refused with their number, and take nothing of others.


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
    every = {(model, column.attname) for model in (ChatUser, *exported()) for column in columns(model)}
    kinds = ("JSONField", "ArrayField")
    named = {pair for pair in every if pair[0]._meta.get_field(pair[1]).get_internal_type() in kinds}
    assert set(SHAPES) == named
