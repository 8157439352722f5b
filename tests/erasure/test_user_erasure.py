"""A chat user is erased: nothing of them is left, nothing of others is erased; who may, and what opens afterwards."""

import io
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memoryapp import curation, erasure
from memoryapp.curation import knowledge
from memoryapp.engine.chat.media import read_part
from memoryapp.engine.events import Event, PromptMessage, RunFinished, TurnStarted, from_payload, to_payload
from memoryapp.erasure import Target, chat_user, scanner
from memoryapp.insight.evaluation import nights
from memoryapp.intake import artifacts
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.memory import content
from memoryapp.memory.content import BeingErased
from memoryapp.models import (
    Access,
    AgentCall,
    ApiToken,
    Artifact,
    ChatUser,
    Erasure,
    Evaluation,
    Fact,
    Finding,
    FindingMessage,
    GoldenQuestion,
    ImportBatch,
    ImportFile,
    KnowledgeEdit,
    Media,
    Message,
    NightlyRun,
    Operator,
    Passage,
    Pause,
    Person,
    RawReply,
    Run,
    RunEvent,
    RunProgress,
    Suggestion,
    Topic,
    TopicEdit,
)
from memoryapp.platform.accounts import tokens
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.journal import finished_columns
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import tasks
from tests.conftest import fact_of, record, talk
from tests.curation.reading import fact
from tests.engine.test_events import STORED
from tests.erasure.conftest import REMAINING, Filled, erase_user
from tests.erasure.conftest import SECRET as LEFT_SECRET
from tests.support.api_client import Program, error_of, token_for
from tests.support.browsing import flat

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "Zwiebelfisch"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ONLY_HERS = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
HOLDING = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public' AND data_type IN ('text', 'character varying', 'jsonb', 'json', 'tsvector', 'ARRAY')
"""


def tables_with(text: str) -> set[str]:
    """Returns the columns of the database that contain this text, in any table."""
    found = set()
    with connection.cursor() as cursor:
        cursor.execute(HOLDING)
        for table, column in cursor.fetchall():
            cursor.execute(f'SELECT 1 FROM "{table}" WHERE "{column}"::text ILIKE %s LIMIT 1', [f"%{text}%"])
            if cursor.fetchone():
                found.add(table)
    return found


def rows_of(owner: int) -> dict[str, int]:
    """Counts the rows of each table that belong to this chat user."""
    counted = {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.columns WHERE column_name = 'owner_id'")
        for [table] in cursor.fetchall():
            cursor.execute(f'SELECT count(*) FROM "{table}" WHERE owner_id = %s', [owner])
            counted[table] = cursor.fetchone()[0]
    return {table: count for table, count in counted.items() if count}


def filled(owner: ChatUser) -> None:
    """Creates a row or more of every kind, each with the secret in its texts."""
    at = timezone.now()
    ChatUser.objects.filter(pk=owner.pk).update(profile=f"{SECRET} lives here", display_name=SECRET)
    batch = ImportBatch.objects.create(owner=owner, source=f"{SECRET}.json", format="jsonl")
    add_messages(owner, [record(900 + number, f"{SECRET} {number}") for number in range(5)], batch=batch)
    first, second = talk(owner, (f"{SECRET}s", [f"A {SECRET}?", "Yes."]), (f"More {SECRET}", ["And?", f"{SECRET}!"]))
    merged = curation.swap(
        owner, curation.plan_merge(owner, [first.pk, second.pk]), kind=TopicEdit.Kind.MERGE, actor=SECRET
    )
    curation.undo(owner, merged, actor=SECRET, reason=SECRET)
    Person.objects.create(owner=owner, display_name=SECRET)
    topic = Topic.objects.of(owner).live()[0]
    fact_of(owner, SECRET, topic, relation="is", type="identity", importance=90, created_at=at)
    message = Message.objects.of(owner)[0]
    Artifact.objects.create(owner=owner, message=message, file_type="pdf", name=SECRET, sha256="0" * 64, created_at=at)
    Suggestion.objects.create(owner=owner, kind="merge", key=SECRET, topics=[topic.pk], evidence={"why": SECRET})
    kept = [content.store(owner, read_part(part)) for part in (PICTURE, ONLY_HERS)]
    run = lifecycle.start(owner, SECRET, media=kept)
    ended = RunFinished((), (), "timeout", SECRET)
    last = RunEvent.objects.create(owner=owner, run=run, seq=1, kind=ended.kind, at=at, payload=to_payload(ended))
    RawReply.objects.create(owner=owner, event=last, message=SECRET)
    AgentCall.objects.create(owner=owner, agent="merger", topics=[topic.pk], events=[{"kind": SECRET}])
    Pause.objects.create(owner=owner, kind="import", by=SECRET)
    RunProgress.objects.create(owner=owner, run=run, turn=1, text=SECRET, at=at)
    lifecycle.start(owner, SECRET, parent=run)
    looking = Operator.objects.create(user=User.objects.create_user(f"looks-at-{owner.pk}"))
    Access.objects.create(owner=owner, operator=looking)
    # An earlier test emptied the table of content types, whose numbers Django caches.
    ContentType.objects.clear_cache()
    LogEntry.objects.log_actions(looking.user.pk, Topic.objects.filter(pk=topic.pk), CHANGE, "[]")
    LogEntry.objects.log_actions(looking.user.pk, ChatUser.objects.filter(pk=owner.pk), CHANGE, "[]")


@pytest.fixture
def media(tmp_path: Path, settings: Any) -> Path:
    settings.MEDIA_ROOT = tmp_path
    return tmp_path


@pytest.fixture
def marked(db: None, media: Path) -> ChatUser:
    owner = ChatUser.objects.create(name=SECRET)
    filled(owner)
    return owner


@pytest.fixture
async def embedded(marked: ChatUser, thread_closed: None) -> None:
    await embed_pending(offline_embedder())


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_user, "_ROOTS", [(model, 1) for model, _ in chat_user._ROOTS])


def test_nothing_of_an_erased_chat_user_is_left_anywhere(marked: ChatUser, boris: ChatUser, media: Path) -> None:
    content.store(boris, read_part(PICTURE))
    talk(boris, ("Tea", ["green?", "yes"]))
    others = rows_of(boris.pk)
    own = tokens.make(f"{SECRET}'s", [ApiToken.Scope.READ], [marked])[0]
    shared = tokens.make("shared", [ApiToken.Scope.READ], [marked, boris])[0]
    assert len(tables_with(SECRET)) > 12
    before = rows_of(marked.pk)
    receipt = erase_user(marked, "ada")
    assert tables_with(SECRET) == set()
    assert rows_of(marked.pk) == {}
    assert rows_of(boris.pk) == others
    assert {table: receipt.counts[table] for table in before} == before
    assert (receipt.counts["memoryapp_chatuser"], receipt.counts["files"]) == (1, 1)
    assert [path.read_bytes() for path in media.rglob("*") if path.is_file()] == [b"\x89PNG\r\n\x1a\n"]
    assert list(ApiToken.objects.all()) == [shared]
    assert list(shared.owners.all()) == [boris]
    assert own not in ApiToken.objects.all()
    assert (receipt.actor, receipt.owner_number) == ("ada", marked.pk)
    assert receipt.ended_at


def test_vectors_and_cards_go_too(embedded: None, marked: ChatUser) -> None:
    before = rows_of(marked.pk)
    assert before.keys() >= {"memoryapp_passagevector", "memoryapp_topicvector", "memoryapp_passage"}
    receipt = erase_user(marked, "ada")
    assert {table: receipt.counts[table] for table in before} == before


class Killed(BaseException):
    """Ends a process in the middle of its work."""


@pytest.mark.parametrize("batches", [1, 4, 9, 16, 25])
@pytest.mark.usefixtures("small_batches")
def test_a_process_that_is_killed_leaves_an_erasure_that_the_worker_ends(
    batches: int, marked: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(marked.pk)
    counting = chat_user._count
    done = iter(range(batches))

    def dying(*given: Any) -> None:
        counting(*given)
        if next(done, None) is None:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(chat_user, "_count", dying)
        with pytest.raises(Killed):
            erase_user(marked, "ada")
    left = rows_of(marked.pk)
    assert left
    begun = Erasure.objects.get()
    assert begun.ended_at is None
    assert list(violations()) == []
    assert {table: begun.counts.get(table, 0) + left.get(table, 0) for table in before} == before
    tasks.erase_due()
    assert rows_of(marked.pk) == {}
    ended = Erasure.objects.get()
    assert ended.ended_at
    assert {table: ended.counts[table] for table in before} == before


def test_one_who_is_being_erased_is_hidden_and_takes_nothing_new(marked: ChatUser, as_admin: Any) -> None:
    everyones = Program(token_for())
    chat_user.begin_user(marked, "ada")
    assert not Run.objects.exclude(state=Run.State.FINISHED).exists()
    assert as_admin.get(f"/memory/{marked.pk}/").status_code == 404
    assert SECRET not in as_admin.get("/").content.decode()
    message = {"id": "x", "role": "user", "ts": "2026-03-02T09:00:00Z", "text": "hello"}
    for path, body in (
        ("/v1/messages", {"user": SECRET, "messages": [message]}),
        ("/v1/recall", {"user": SECRET, "query": "hello"}),
    ):
        status, code, sentence = error_of(everyones.post(path, body))
        assert (status, code) == (409, "erased")
        assert "being erased" in sentence
    with pytest.raises(BeingErased):
        add_messages(marked, [record(1, "hello")])
    before = Message.objects.count()
    tasks.erase_due()
    assert before
    assert everyones.post("/v1/messages", {"user": SECRET, "messages": [message]}).json()["added"] == 1
    assert Message.objects.count() == 1


def test_what_is_written_while_the_rows_go_goes_too(marked: ChatUser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer commits between the last batch and the end."""
    rest = iter([True])
    deleting = chat_user._delete_owner

    def late(begun: Erasure) -> None:
        if next(rest, False):
            written = threading.Thread(target=passage_written)
            written.start()
            written.join()
        deleting(begun)

    def passage_written() -> None:
        try:
            Passage.objects.create(owner=marked, text=SECRET, terms="", term_count=1)
        finally:
            connection.close()

    monkeypatch.setattr(chat_user, "_delete_owner", late)
    receipt = erase_user(marked, "ada")
    assert receipt.ended_at
    assert rows_of(marked.pk) == {}
    assert tables_with(SECRET) == set()


def test_a_row_that_cannot_go_ends_the_attempt_and_a_later_one_succeeds(
    marked: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(chat_user, "_others", lambda: iter(()))
        patch.setattr(chat_user, "_ROOTS", [])
        with pytest.raises(Exception, match="violates foreign key"):
            erase_user(marked, "ada")
    assert Erasure.objects.get().ended_at is None
    assert erase_user(marked, "eve").actor == "ada"
    assert rows_of(marked.pk) == {}


def test_history_of_others_stays_by_the_laws_of_the_database(marked: ChatUser, boris: ChatUser) -> None:
    topic = talk(boris, ("Tea", ["green?", "yes"]))[0]
    chat_user.begin_user(marked, "ada")
    with pytest.raises(Exception, match="History stays"), transaction.atomic():
        TopicEdit.objects.filter(owner=boris).delete()
    assert Topic.objects.filter(pk=topic.pk).exists()


class TestCommand:
    def run(self, *arguments: str) -> Any:
        out = io.StringIO()
        call_command("erase_user", *arguments, "--json", stdout=out)
        return json.loads(out.getvalue())

    def test_it_counts_what_went(self, marked: ChatUser) -> None:
        before = rows_of(marked.pk)
        counts = self.run(SECRET, "--yes")
        assert {table: counts[table] for table in before} == before
        with pytest.raises(CommandError, match="There is no chat user"):
            self.run(SECRET, "--yes")

    @pytest.mark.parametrize(("typed", "sentence"), [("anna", "not the name"), (None, "--yes")])
    def test_it_asks_and_takes_nothing_but_the_name(
        self, typed: str | None, sentence: str, marked: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("" if typed is None else f"{typed}\n"))
        with pytest.raises(CommandError, match=sentence):
            self.run(SECRET)
        assert ChatUser.objects.filter(name=SECRET).exists()
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\n"))
        assert self.run(SECRET)["memoryapp_chatuser"] == 1

    def test_it_ends_what_was_begun(self, marked: ChatUser) -> None:
        chat_user.begin_user(marked, "ada")
        assert self.run(SECRET)["memoryapp_chatuser"] == 1


class TestEndpoint:
    @pytest.fixture
    def everyones(self) -> Program:
        return Program(token_for())

    def test_it_answers_with_the_receipt(self, marked: ChatUser, everyones: Program) -> None:
        before = rows_of(marked.pk)
        document = everyones.ask("delete", f"/v1/users/{SECRET}").json()
        assert {table: document["counts"][table] for table in before} == before
        assert document["erasure"] == Erasure.objects.get().pk
        assert error_of(everyones.ask("delete", f"/v1/users/{SECRET}"))[0] == 404

    def test_a_call_that_was_cut_is_asked_again(self, marked: ChatUser, everyones: Program) -> None:
        chat_user.begin_user(marked, "ada")
        assert everyones.ask("delete", f"/v1/users/{SECRET}").json()["counts"]["memoryapp_chatuser"] == 1

    def test_a_token_for_some_memories_may_not(self, marked: ChatUser, boris: ChatUser) -> None:
        assert error_of(Program(token_for(marked)).ask("delete", f"/v1/users/{SECRET}"))[0] == 403
        assert error_of(Program(token_for(boris)).ask("delete", f"/v1/users/{SECRET}"))[0] == 404
        assert error_of(Program(token_for(scopes=("read",))).ask("delete", f"/v1/users/{SECRET}"))[0] == 403
        assert ChatUser.objects.filter(name=SECRET).exists()
        assert Media.objects.filter(owner=marked).count() == 2
        assert default_storage.exists(Media.objects.filter(owner=marked)[0].path)


class TestPage:
    def test_it_says_in_numbers_what_goes_and_takes_only_the_name(self, marked: ChatUser, as_admin: Client) -> None:
        assert f"/memory/{marked.pk}/erase/" in as_admin.get(f"/memory/{marked.pk}/").content.decode()
        page = flat(as_admin.get(f"/memory/{marked.pk}/erase/").content.decode())
        assert "This cannot be undone." in page
        assert "<b>9</b><span>messages" in page
        refused = as_admin.post(f"/memory/{marked.pk}/erase/", {"name": "anna"})
        assert refused.status_code == 422
        assert "nothing was erased" in refused.content.decode()
        assert ChatUser.objects.filter(pk=marked.pk).exists()

    def test_what_is_confirmed_is_shown_until_the_receipt(self, marked: ChatUser, as_admin: Client) -> None:
        begun = as_admin.post(f"/memory/{marked.pk}/erase/", {"name": SECRET})
        address = f"/erasures/{Erasure.objects.get().pk}/"
        assert begun["Location"] == address
        assert "hx-trigger" in _region(as_admin.get(address))
        tasks.erase_due()
        tasks.verify_asked()
        ended = _region(as_admin.get(address))
        assert "hx-trigger" not in ended
        assert "memoryapp_message" in ended
        assert SECRET not in ended


def _region(answer: Any) -> str:
    """Returns the part of the page that is polled."""
    page: str = answer.content.decode()
    return page[page.index('id="erasure"') : page.index("</main>")]


def test_the_nights_of_a_golden_set_end_with_its_last_owner(
    marked: ChatUser, boris: ChatUser, as_admin: Client
) -> None:
    for owner, name in ((marked, "anna's secrets"), (marked, "shared"), (boris, "shared")):
        GoldenQuestion.objects.create(owner=owner, collection=name, question="Where?", made_by="ada")
        night = {"hour": 3, "zone": "UTC", "most": 5, "strategy": "vector", "next_at": timezone.now(), "made_by": "ada"}
        NightlyRun.objects.get_or_create(collection=name, defaults=night)
        Evaluation.objects.create(source=name, strategy="vector")
    erase_user(marked, "ada")
    assert {*NightlyRun.objects.values_list("collection", "is_on")} == {("[erased]", False), ("shared", True)}
    assert sorted(Evaluation.objects.values_list("source", flat=True)) == ["[erased]", "shared", "shared"]
    for nightly in NightlyRun.objects.all():
        assert as_admin.get(reverse("nightly", args=[nightly.pk])).status_code == 200
    assert [night.nightly.collection for night in nights.begin_due()] == ["shared"]


# Pages and the API: who may erase and export, what is shown before an erasure, and what is answered.


def noted(content: str) -> dict[str, Any]:
    """Returns the values of a fact that a person writes."""
    return {name: value for name, value in fact(content).items() if name != "only_one"}


def page_of(client: Client, address: str) -> str:
    return flat(client.get(address).content.decode())


def test_a_message_is_erased_from_its_page_after_the_word_is_typed(filled: Filled, as_admin: Client) -> None:
    owner, number = filled.owner.pk, filled.message.pk
    address = f"/memory/{owner}/erase/part/?message={number}"
    assert address in page_of(as_admin, f"/memory/{owner}/messages/?at={number}")
    asked = page_of(as_admin, address)
    assert "cannot be undone" in asked
    assert "<b>1</b><span>message is erased" in asked
    assert "edited by hand" in asked
    refused = as_admin.post(address, {"word": "yes"})
    assert (refused.status_code, Erasure.objects.count()) == (422, 0)
    begun = as_admin.post(address, {"word": "Erase"})
    receipt = Erasure.objects.get()
    assert begun["Location"] == f"/erasures/{receipt.pk}/"
    assert "hx-trigger" in page_of(as_admin, begun["Location"])
    tasks.erase_due()
    assert not Message.objects.filter(pk=number).exists()
    assert "memoryapp_passage" in page_of(as_admin, begun["Location"])
    as_admin.post(f"{begun['Location']}verify/")
    tasks.erase_due()
    assert "no erased words were found" not in page_of(as_admin, begun["Location"]), "an erasure waits for no check"
    tasks.verify_asked()
    checked = page_of(as_admin, begun["Location"])
    assert "no erased words were found" in checked
    assert LEFT_SECRET not in checked
    assert "nothing left" in page_of(as_admin, "/erasures/")
    kept = json.loads(as_admin.get(f"{begun['Location']}file/").content)
    assert (kept["erasure"], bool(kept["marks"])) == (receipt.pk, True)
    assert as_admin.get(address).status_code == 404


def test_topic_and_person_have_the_same_page(filled: Filled, as_admin: Client) -> None:
    owner = filled.owner.pk
    topic, person = (
        f"/memory/{owner}/erase/part/?topic={filled.topic.pk}",
        f"/memory/{owner}/erase/part/?person={filled.person.pk}",
    )
    assert topic in page_of(as_admin, f"/topics/{filled.topic.pk}/")
    assert person in page_of(as_admin, f"/memory/{owner}/people/{filled.person.pk}/")
    assert "<b>2</b><span>messages are erased" in page_of(as_admin, topic)
    as_admin.post(person, {"word": "erase"})
    as_admin.post(topic, {"word": "erase"})
    tasks.erase_due()
    assert [erasure.kind for erasure in Erasure.objects.order_by("pk")] == ["person", "topic"]
    assert not Person.objects.exists()
    assert (
        "messages of it were erased" in page_of(as_admin, f"/topics/{filled.other.pk}/") or Message.objects.count() == 5
    )


def test_each_page_counts_the_findings_that_wait_and_go(filled: Filled, as_admin: Client) -> None:
    owner, state = filled.owner, Finding.State
    of_message = Finding.objects.create(owner=owner, noun="fact", values={"content": LEFT_SECRET}, state=state.WAITING)
    FindingMessage.objects.create(owner=owner, finding=of_message, message=filled.message)
    of_person = {"owner": owner, "noun": "person", "target": filled.person.pk}
    Finding.objects.create(**of_person, values={"bio": "swims"}, state=state.WAITING)
    Finding.objects.create(**of_person, values={"bio": "rows"}, state=state.REJECTED)
    for part in (f"message={filled.message.pk}", f"person={filled.person.pk}"):
        address = f"/memory/{owner.pk}/erase/part/?{part}"
        assert "<b>1</b><span>waiting finding is erased" in page_of(as_admin, address), part
    assert "<b>2</b><span>findings that wait in the review" in page_of(as_admin, f"/memory/{owner.pk}/erase/")
    as_admin.post(f"/memory/{owner.pk}/erase/part/?person={filled.person.pk}", {"word": "erase"})
    tasks.erase_due()
    assert list(Finding.objects.all()) == [of_message]


def test_what_quotes_a_message_is_named_before_and_goes_with_it(filled: Filled, as_admin: Client) -> None:
    owner = filled.owner
    knowledge.create(owner, KnowledgeEdit.Noun.FACT, noted(f"I wrote down: {LEFT_SECRET}"), actor="ada")
    knowledge.create(owner, KnowledgeEdit.Noun.FACT, noted(REMAINING), actor="ada")
    quoting, _is_new = artifacts.put(owner, "note.txt", "text/plain", f"A note. {LEFT_SECRET}. End.".encode())
    artifacts.put(owner, "boat.txt", "text/plain", REMAINING.encode())
    assert artifacts.process_due(owner) == 2
    ImportFile.objects.create(owner=owner, source="chat.jsonl", size_bytes=9, state=ImportFile.State.READY)
    address = f"/memory/{owner.pk}/erase/part/?message={filled.message.pk}"
    asked = page_of(as_admin, address)
    assert "Facts that quote it go too, artifacts that do with their files" in asked
    assert "<b>1</b><span>uploaded chat file goes" in asked
    as_admin.post(address, {"word": "erase"})
    tasks.erase_due()
    assert [row.content for row in Fact.objects.filter(owner=owner)] == [REMAINING]
    assert [row.name for row in Artifact.objects.filter(owner=owner)] == ["boat.txt"]
    assert not Media.objects.filter(sha256=quoting.sha256).exists()
    receipt = Erasure.objects.get()
    assert list(scanner.residues(scanner.receipt(str(receipt.pk)))) == []
    assert not ImportFile.objects.exists()


def test_programs_erase_a_message_and_a_person(filled: Filled) -> None:
    everyones = Program(token_for())
    answer = everyones.ask("delete", f"/v1/messages/{filled.message.external_id}?user=anna").json()
    assert (answer["kind"], answer["counts"]["memoryapp_message"]) == ("messages", 1)
    assert error_of(everyones.ask("delete", f"/v1/messages/{filled.message.external_id}?user=anna"))[0] == 404
    person = f"/v1/users/anna/people/Person:{filled.person.pk}"
    assert everyones.ask("delete", person).json()["counts"]["memoryapp_person"] == 1
    assert error_of(everyones.ask("delete", person))[0] == 404
    assert error_of(everyones.ask("delete", "/v1/users/anna/people/Topic:1"))[0] == 404


def test_an_erasure_that_waits_for_a_run_is_asked_for_at_its_address(filled: Filled, boris: ChatUser) -> None:
    run = Run.objects.create(owner=filled.owner, strategy="flash", query="Where?", state=Run.State.RUNNING)
    of_anna, of_boris = (Program(token_for(owner, scopes=("forget",))) for owner in (filled.owner, boris))
    begun = of_anna.ask("delete", f"/v1/messages/{filled.message.external_id}?user=anna")
    assert (begun.status_code, begun["Retry-After"]) == (202, "30")
    assert of_anna.get(begun["Location"]).status_code == 202
    assert error_of(of_boris.get(begun["Location"]))[0] == 404
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    tasks.erase_due()
    ended = of_anna.get(begun["Location"])
    assert (ended.status_code, ended.json()["counts"]["memoryapp_message"]) == (200, 1)


def test_a_chat_user_is_erased_by_a_name_that_reads_like_another_address(filled: Filled) -> None:
    named = ChatUser.objects.create(name=f"anna/people/Person:{filled.person.pk}")
    everyones, address = Program(token_for()), f"/v1/users?user={quote(named.name)}"
    assert everyones.ask("delete", address).json()["kind"] == "user"
    assert error_of(everyones.ask("delete", address))[0] == 404
    assert [user.name for user in ChatUser.objects.all()] == ["anna"]
    assert Person.objects.filter(pk=filled.person.pk).exists()


def test_a_token_for_some_memories_erases_and_exports_nothing(filled: Filled) -> None:
    limited = Program(token_for(filled.owner, scopes=("recall", "ingest", "read", "curate")))
    for method, path in (
        ("delete", f"/v1/messages/{filled.message.external_id}?user=anna"),
        ("delete", f"/v1/users/anna/people/Person:{filled.person.pk}"),
        ("delete", "/v1/users?user=anna"),
        ("get", "/v1/users/anna/export"),
    ):
        assert error_of(limited.ask(method, path))[0] == 403
    assert Message.objects.filter(pk=filled.message.pk).exists()


def test_an_export_comes_as_lines_from_page_and_program(filled: Filled, as_admin: Client) -> None:
    page: Any = as_admin.get(f"/memory/{filled.owner.pk}/export/")
    assert page["Content-Disposition"] == 'attachment; filename="memory.jsonl"'
    answer: Any = Program(token_for()).ask("get", "/v1/users/anna/export")
    texts = [b"".join(each).decode() for each in (page, answer)]
    assert texts[0] == texts[1]
    lines = [json.loads(line) for line in texts[0].splitlines()]
    assert (lines[0]["user"], lines[-1]["lines"]) == ("anna", len(lines) - 1)


# A run with any event that any version stored is erased from, and still opens on every page and for every program.


LATEST = {line["kind"]: line["payload"] for line in STORED}
ORDER = ("run_started", "candidates_found", "run_finished")
PAGES = ("run", "answer", "run_json", "run_charts")


def stored(filled: Filled, line: dict[str, Any], prompts: tuple[str, ...]) -> Run:
    """A finished run with this event, which is about the topic of the erased message."""
    ids = {"Topic:42": f"Topic:{filled.topic.pk}", "Topic:18": f"Topic:{filled.other.pk}"}
    written = {kind: json.dumps(payload) for kind, payload in {**LATEST, line["kind"]: line["payload"]}.items()}
    for old, new in ids.items():
        written = {kind: text.replace(old, new) for kind, text in written.items()}
    said = TurnStarted(1, "auto", "none", tuple(PromptMessage("user", text) for text in prompts))
    between = [] if line["kind"] in ORDER else [(line["kind"], json.loads(written[line["kind"]]))]
    began, found, ended = ((kind, json.loads(written[kind])) for kind in ORDER)
    rows = [began, found, ("turn_started", to_payload(said)), *between, ended]
    events: list[Event] = [from_payload(kind, payload) for kind, payload in rows]
    strategy = rows[0][1]["strategy"]
    run = Run.objects.create(owner=filled.owner, strategy=strategy, query="Where is it?", state=Run.State.RUNNING)
    for seq, (kind, payload) in enumerate(rows, 1):
        RunEvent.objects.create(owner=filled.owner, run=run, seq=seq, kind=kind, at=timezone.now(), payload=payload)
    Run.objects.filter(pk=run.pk).update(**finished_columns(events, events[-1]), finished_at=timezone.now())
    return run


@pytest.mark.slow
def test_a_run_with_any_event_opens_after_what_it_read_was_erased(filled: Filled, as_admin: Client) -> None:
    runs = [
        (f"{line['kind']} {line['shape']} {len(prompts)}", stored(filled, line, prompts))
        for line in STORED
        if line["payload"] == LATEST[line["kind"]] or line["kind"] == "answered"
        for prompts in ((), (LEFT_SECRET,))
    ]
    erasure.finish(erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada"))
    program, failed = Program(token_for(filled.owner)), []
    as_admin.raise_request_exception = program.client.raise_request_exception = False
    for name, run in runs:
        pages = [reverse(page, args=[run.pk]) for page in PAGES]
        files = [f"{reverse('run_capsule', args=[run.pk])}{asked}" for asked in ("?mask=1", "?format=json")]
        answers = [(path, as_admin.get(path)) for path in (*pages, *files)]
        answers += [(path, program.get(f"/v1/runs/{run.pk}{path}")) for path in ("", "/events", "/stream")]
        for path, answer in answers:
            if answer.status_code != 200 and not (answer.status_code < 500 and not path.startswith("/runs")):
                failed.append(f"{name}: {path.replace(str(run.pk), '…')} {answer.status_code}")
    assert failed == []
