"""What laplaced distilled from its messages is imported with them, by several imports at once."""

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client

from memoryapp.curation import CurationError, history, knowledge
from memoryapp.importers import MessageRecord, Rejected, open_chat
from memoryapp.intake import messages
from memoryapp.intake.imports import Course, addressee_of, import_for
from memoryapp.intake.invariants import violations
from memoryapp.intake.transfer import distilled
from memoryapp.intake.transfer import files as import_files
from memoryapp.intake.transfer import files as working
from memoryapp.models import (
    Artifact,
    ChatUser,
    Fact,
    ImportBatch,
    ImportFile,
    KnowledgeEdit,
    Message,
    Person,
    Topic,
    TopicEdit,
)
from memoryapp.upkeep import tasks
from tests.intake.laplaced import USER, artifact, database, fact, message, topic
from tests.intake.test_import_files import folder, worked
from tests.support.browsing import flat
from tests.support.clock import PATIENCE
from tests.support.stack import wait_for

__all__ = ["folder"]

pytestmark = pytest.mark.django_db(transaction=True)

State = ImportFile.State
RECORDS = [*(message(n, 7) for n in (1, 2, 5)), *(message(n, 8) for n in (3, 4)), message(6, 9), message(7, None)]


@pytest.fixture
def path(folder: Path) -> Path:
    """Two topics that fit and three that do not; of the other kinds one that fits and one that does not."""
    return database(
        folder,
        users=[{"id": USER, "username": "anna"}],
        history=RECORDS,
        topics=[
            topic(7, 1, 5, facts_extracted=1),
            topic(8, 3, 4),
            topic(9, 6, 6, summary=""),
            topic(10, 50, 60),
            topic(11, 6, 6, summary="x" * 2_001),
        ],
        structured_facts=[
            fact(1, "Likes figs.", topic_id=7),
            fact(2, "Likes dates.", type="rumour"),
            fact(3, "Likes plums.", importance=900),
        ],
        people=[
            {"id": 1, "display_name": "Dora", "aliases": ["Dodo"], "circle": "Friends", "mention_count": 4},
            {"id": 2, "display_name": "Egon", "circle": "Enemies", "bio": "A vet."},
            {"id": 3, "display_name": "Fritz", "aliases": "{oops"},
        ],
        artifacts=[
            artifact(1, original_name="menu.pdf", summary="A menu", keywords=["figs"], file_size=7),
            artifact(2, state="failed"),
            artifact(3, content_hash="nonsense"),
        ],
    )


def staged(owner: ChatUser, path: Path) -> ImportFile:
    copy = shutil.copy(path, path.parent / "received")
    return worked(import_files.stage(owner, Path(copy), path.name, "ada"))


def imported(owner: ChatUser, path: Path) -> ImportFile:
    import_files.begin(row := staged(owner, path))
    return worked(row)


def contents(owner: ChatUser) -> list[Any]:
    """Returns the content of everything imported."""
    listed = {
        topic.summary: list(topic.message_set.in_order().values_list("text", flat=True))
        for topic in Topic.objects.of(owner).live()
    }
    facts = list(Fact.objects.filter(owner=owner).values_list("content", "topic__summary", "importance"))
    people = list(Person.objects.filter(owner=owner).values_list("display_name", "aliases", "circle", "mention_count"))
    files = Artifact.objects.filter(owner=owner).values_list("name", "summary", "keywords", "state", "message__text")
    return [listed, facts, people, list(files)]


WHOLE = [
    {"Talk 7": ["message 1", "message 2", "message 5"], "Talk 8": ["message 3", "message 4"]},
    [("Likes figs.", "Talk 7", 50)],
    [("Dora", ["Dodo"], "Friends", 4), ("Egon", [], "Other", 1)],
    [("menu.pdf", "A menu", ["figs"], "ready", "message 1")],
]
NEW = {"topic": 2, "fact": 1, "person": 2, "artifact": 1}


class TestImporting:
    def test_the_rehearsal_says_what_comes_and_what_does_not_and_why(self, anna: ChatUser, path: Path) -> None:
        row = staged(anna, path)
        assert (row.state, row.findings["added"], row.findings["brings"]) == (State.READY, 7, NEW)
        reasons = {item["line"]: item["reason"] for item in row.findings["rejections"]}
        assert reasons.keys() == {
            *("topics[9]", "topics[10]", "topics[11]", "structured_facts[2]", "structured_facts[3]"),
            *("people[3]", "artifacts[2]", "artifacts[3]"),
        }
        assert "no messages" in reasons["topics[10]"]
        assert "never read" in reasons["artifacts[2]"]
        assert "rumour" in reasons["structured_facts[2]"]
        assert not Topic.objects.exists()
        assert not Person.objects.exists()

    def test_all_of_it_comes_and_each_row_has_a_change_by_who_asked(self, anna: ChatUser, path: Path) -> None:
        row = imported(anna, path)
        assert (row.state, row.findings["brings"], row.fault) == (State.DONE, NEW, "")
        assert contents(anna) == WHOLE
        assert Message.objects.of(anna).active().count() == 2
        assert dict(Topic.objects.values_list("summary", "facts_extracted")) == {"Talk 7": True, "Talk 8": False}
        assert set(TopicEdit.objects.values_list("actor", "kind")) == {("ada", "archive")}
        assert set(KnowledgeEdit.objects.values_list("actor", "kind", "batch")) == {
            ("ada", "create", ImportBatch.objects.get().pk)
        }
        assert list(violations()) == []

    def test_a_second_import_changes_nothing_whatever_people_did(self, anna: ChatUser, path: Path) -> None:
        imported(anna, path)
        knowledge.delete(anna, Fact.objects.get(), actor="boris")
        knowledge.edit(anna, Person.objects.get(display_name="Dora"), {"display_name": "Dorothea"}, actor="boris")
        before = contents(anna)
        row = staged(anna, path)
        assert (row.findings["added"], row.findings["brings"]) == (0, {})
        import_files.begin(row)
        assert worked(row).state == State.DONE
        assert contents(anna) == before

    def test_a_namesake_comes_beside_the_known_person(self, anna: ChatUser, path: Path) -> None:
        Person.objects.create(owner=anna, display_name="Dora", circle="Family", bio="A sister.")
        Person.objects.create(owner=anna, display_name="Egon", circle="Family")
        imported(anna, path)
        imported(anna, path)
        people = Person.objects.order_by("display_name", "circle").values_list("display_name", "circle", "bio")
        assert [(name, circle) for name, circle, _bio in people] == [
            ("Dora", "Family"),
            ("Dora", "Friends"),
            ("Egon", "Family"),
        ]
        assert people[0][2] == "A sister."

    def test_messages_that_came_earlier_get_their_topics(self, anna: ChatUser, path: Path) -> None:
        records = [dict(message(n, 7)) for n in (1, 2, 5)]
        bare = database(_emptied(path.parent), users=[{"id": USER, "username": "anna"}], history=records)
        imported(anna, bare)
        row = imported(anna, path)
        assert (row.findings["added"], row.findings["brings"]["topic"]) == (4, 2)
        assert contents(anna) == WHOLE

    def test_a_topic_whose_messages_are_in_others_by_half_is_refused(self, anna: ChatUser, path: Path) -> None:
        imported(anna, path)
        more = database(
            _emptied(path.parent),
            users=[{"id": USER, "username": "anna"}],
            history=[message(1, 7), message(9, 7)],
            topics=[topic(7, 1, 9)],
        )
        row = staged(anna, more)
        import_files.begin(row)
        assert worked(row).findings["brings"] == {}
        assert contents(anna) == WHOLE

    def test_early_databases_say_by_ranges_which_messages_a_topic_has(self, anna: ChatUser, folder: Path) -> None:
        schema = """
            CREATE TABLE history (id INTEGER PRIMARY KEY, user_id TEXT, role TEXT, content TEXT, created_at TIMESTAMP);
            CREATE TABLE topics (id INTEGER, user_id TEXT, summary TEXT, start_msg_id INTEGER, end_msg_id INTEGER);
        """
        rows = [{k: v for k, v in message(n, None).items() if k != "topic_id"} for n in (1, 2, 3, 4)]
        listed = [topic(1, 1, 2), topic(2, 4, 4), topic(3, 3, 3, user_id="another")]
        imported(anna, database(folder, schema, history=rows, topics=listed))
        assert contents(anna)[0] == {"Talk 1": ["message 1", "message 2"], "Talk 2": ["message 4"]}

    def test_nobody_archives_the_messages_before_their_topics_come(
        self, anna: ChatUser, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archived: list[bool] = []
        watch = working._Watch.__call__

        def archive() -> None:
            tasks.archive_due()
            archived.append(Topic.objects.exists())
            connection.close()

        def watching(self: Any, count: int) -> None:
            with ThreadPoolExecutor(1) as beside:
                beside.submit(archive).result()
            watch(self, count)

        import_files.begin(row := staged(anna, path))
        monkeypatch.setattr(working._Watch, "__call__", watching)
        monkeypatch.setattr(messages, "BATCH", 1)
        worked(row)
        assert archived == [False] * 7
        assert contents(anna) == WHOLE

    def test_the_command_takes_the_same_road(self, path: Path) -> None:
        out = StringIO()
        call_command("import_chat", str(path), "--dry-run", "--json", stdout=out)
        assert json.loads(out.getvalue())["brought"] == NEW
        assert not ChatUser.objects.exists()
        call_command("import_chat", str(path), stdout=StringIO(), stderr=StringIO())
        assert contents(ChatUser.objects.get(name="anna")) == WHOLE


class TestUndoing:
    def test_the_import_is_taken_back_whole_but_for_what_somebody_changed(self, anna: ChatUser, path: Path) -> None:
        imported(anna, path)
        batch = ImportBatch.objects.get()
        knowledge.edit(anna, Person.objects.get(display_name="Egon"), {"bio": "A vet in Riga."}, actor="boris")
        assert history.withdrawal(anna, batch).rows == 3
        history.withdraw(anna, batch, actor="ada")
        topics, facts, people, files = contents(anna)
        assert (topics, facts, files) == ({}, [], [])
        assert [name for name, *_rest in people] == ["Egon"]
        assert not Message.objects.present().exists()
        assert list(violations()) == []

    def test_one_undo_brings_all_of_it_back_and_the_next_takes_all_of_it_again(
        self, anna: ChatUser, path: Path
    ) -> None:
        imported(anna, path)
        batch = ImportBatch.objects.get()
        edit = history.withdraw(anna, batch, actor="ada")
        for _turn in range(2):
            undone = history.undo_with_dependents(anna, edit, actor="boris")[-1]
            assert contents(anna) == WHOLE
            assert set(KnowledgeEdit.objects.filter(kind="undo").values_list("actor", flat=True)) == {"boris"}
            history.undo_with_dependents(anna, undone, actor="boris")
            assert contents(anna) == [{}, [], [], []]
        with pytest.raises(CurationError):
            history.withdraw(anna, batch, actor="ada")

    def test_what_came_back_by_itself_stays_when_the_rest_comes_back(self, anna: ChatUser, path: Path) -> None:
        imported(anna, path)
        edit = history.withdraw(anna, ImportBatch.objects.get(), actor="ada")
        knowledge.undo(anna, KnowledgeEdit.objects.get(kind="delete", noun="person"), actor="ada")
        knowledge.edit(anna, Person.objects.get(display_name="Egon"), {"bio": "A vet in Riga."}, actor="ada")
        history.undo(edit, actor="ada")
        assert contents(anna) == WHOLE
        assert Person.objects.get(display_name="Egon").bio == "A vet in Riga."

    def test_where_only_rows_came_one_undo_brings_them_back_too(self, anna: ChatUser, path: Path) -> None:
        rows = database(_emptied(path.parent), users=[{"id": USER, "username": "anna"}], history=RECORDS)
        imported(anna, rows)
        imported(anna, path)
        batch = ImportBatch.objects.latest("pk")
        assert batch.added == 0
        people = contents(anna)[2]
        edit = history.withdraw(anna, batch, actor="ada")
        assert not Person.objects.exists()
        history.undo(edit, actor="ada")
        assert contents(anna)[2] == people

    def test_the_pages_say_what_comes_and_what_goes(self, anna: ChatUser, path: Path, as_admin: Client) -> None:
        row = staged(anna, path)
        address = f"/memory/{anna.pk}/imports/files/{row.pk}/"
        assert "Extracted from it already" in flat(as_admin.get(address).content.decode())
        import_files.begin(row)
        worked(row)
        assert "With them came:" in flat(as_admin.get(address).content.decode())
        withdraw = f"/memory/{anna.pk}/imports/{ImportBatch.objects.get().pk}/withdraw/"
        assert "people, facts and artifacts go" in flat(as_admin.get(withdraw).content.decode())
        as_admin.post(withdraw)
        assert contents(anna) == [{}, [], [], []]


def _emptied(folder: Path) -> Path:
    """Returns a new folder for one more database."""
    made = folder / "earlier"
    made.mkdir()
    return made


# Two imports of laplaced at the same moment: files that name the same chat users in any order wait for each other.


WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def of(folder: Path, *users: str) -> Path:
    """Writes a file whose first message is of the first user."""
    folder.mkdir()
    listed = [{"id": name, "username": name} for name in users]
    talk = [{**message(n, None, f"{folder.name} {n}"), "user_id": name} for n, name in enumerate(users, 1)]
    return database(folder, users=listed, history=[{**row, "id": row["id"] + len(folder.name)} for row in talk])


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])


def importing(path: Path, second: str, is_there: threading.Event, other: threading.Event) -> Callable[[], None]:
    """Imports the file; before its second user it waits until the other import has come as far, or waits itself."""

    def observe(item: MessageRecord | Rejected, name: str) -> None:
        if name == second:
            is_there.set()
            wait_for(lambda: other.is_set() or somebody_waits())

    def work() -> None:
        chat = open_chat(path)
        addressee, _note = addressee_of(chat, "")
        try:
            with distilled.one_transaction(chat, addressee) as opened:
                import_for(chat, addressee, Course(opened=opened, observe=observe))
        finally:
            connections.close_all()

    return work


@pytest.mark.parametrize("known", [(), ("anna", "boris")])
def test_files_with_their_users_in_opposite_order_both_arrive(tmp_path: Path, known: tuple[str, ...]) -> None:
    for name in known:
        ChatUser.objects.create(name=name)
    first, second = of(tmp_path / "one", "anna", "boris"), of(tmp_path / "other", "boris", "anna")
    here, there = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        works = importing(first, "boris", here, there), importing(second, "anna", there, here)
        for future in [pool.submit(work) for work in works]:
            future.result(PATIENCE)
    assert {name: Message.objects.filter(owner__name=name).count() for name in ("anna", "boris")} == {
        "anna": 2,
        "boris": 2,
    }
    assert list(violations()) == []
