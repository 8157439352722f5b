"""A message is erased from a memory that remains: everywhere, from every past and other programs' runs; the rest is
valid."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from memoryapp import curation, erasure
from memoryapp.curation import CurationError, knowledge
from memoryapp.doors.traces import arrival, wire
from memoryapp.engine.events import CandidatesFound, QueryEnriched, RunFinished, RunStarted, from_payload
from memoryapp.erasure import Target, scanner
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import (
    AgentCall,
    Artifact,
    Card,
    ChatUser,
    Erasure,
    Fact,
    Finding,
    FindingMessage,
    KnowledgeEdit,
    Message,
    Passage,
    PassageMessage,
    Person,
    RawReply,
    Run,
    RunEvent,
    Suggestion,
    Topic,
    TopicEdit,
    TopicMessage,
    TraceSpan,
)
from memoryapp.runs.forks import fork
from memoryapp.runs.replays import ForkError
from memoryapp.search import items
from rerankui.web.moment import written
from tests.conftest import candidate, record, talk
from tests.doors.sent import request, search, span
from tests.erasure.conftest import PARAPHRASE, REMAINING, SECRET, Filled, events_about, stored_run
from tests.support.browsing import get

EVERY_TEXT = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public' AND data_type IN ('text', 'character varying', 'jsonb', 'json', 'tsvector', 'ARRAY')
"""


def tables_with(text: str) -> set[str]:
    """Returns the columns of the database that contain this text, in any table."""
    found = set()
    with connection.cursor() as cursor:
        cursor.execute(EVERY_TEXT)
        for table, column in cursor.fetchall():
            cursor.execute(f'SELECT 1 FROM "{table}" WHERE "{column}"::text ILIKE %s LIMIT 1', [f"%{text}%"])
            if cursor.fetchone():
                found.add(f"{table}.{column}")
    return found


def erased(filled: Filled, *messages: Message) -> Erasure:
    target = Target(filled.owner.pk, tuple(row.pk for row in messages or (filled.message,)))
    receipt = erasure.finish(erasure.begin(target, "ada"))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    return receipt


def places(receipt: Erasure) -> list[str]:
    return [residue.place for residue in scanner.residues(scanner.receipt(str(receipt.pk)))]


@pytest.mark.parametrize("is_merged", [False, True])
def test_what_the_archivist_put_into_a_biography_goes_with_its_message(filled: Filled, is_merged: bool) -> None:
    owner, spoken = filled.owner, "Works on a ferry"
    person = Person.objects.create(owner=owner, display_name="Egon", bio=f"{spoken}\n{PARAPHRASE}\nHas a cat")
    whole = {"display_name": "Egon", "bio": person.bio}
    values = {"owner": owner, "noun": "person", "actor": "archivist"}
    KnowledgeEdit.objects.create(kind="create", before={str(person.pk): None}, after={str(person.pk): whole}, **values)
    other = Message.objects.filter(owner=owner).exclude(pk=filled.message.pk).latest("pk")
    for message, bio in ((filled.message, f"{PARAPHRASE}\nHas a cat"), (other, f"{spoken}\nHas a cat")):
        found = Finding.objects.create(
            owner=owner, noun="person", state="confirmed", row=person.pk, values={"bio": bio}, decided_by="archivist"
        )
        FindingMessage.objects.create(owner=owner, finding=found, message=message)
    if is_merged:
        merged, person = person, Person.objects.create(owner=owner, display_name="Ida")
        knowledge.merge_people(owner, person, [merged], actor="ada")
    receipt = erased(filled)
    person.refresh_from_db()
    assert person.bio == f"{spoken}\nHas a cat"
    assert tables_with("valuables are locked") == set()
    assert receipt.counts["memoryapp_finding"] == 1


@pytest.mark.slow
def test_nothing_of_an_erased_message_is_left_anywhere_and_the_rest_is_whole(filled: Filled) -> None:
    assert len(tables_with("Zwiebelfisch")) > 10
    receipt = erased(filled)
    assert receipt.ended_at
    assert tables_with("Zwiebelfisch") == set()
    assert tables_with("valuables are locked") == set()
    assert places(receipt) == []
    assert list(violations()) == []
    assert receipt.counts["memoryapp_message"] == 1
    assert receipt.counts["memoryapp_rawreply"] == 2
    assert receipt.redacted["memoryapp_run"] == 1
    assert Message.objects.filter(text=REMAINING).exists()
    assert not Fact.objects.exists()
    assert not Artifact.objects.exists()
    assert not Suggestion.objects.exists()
    assert not KnowledgeEdit.objects.exists()
    assert Person.objects.get().bio == "[erased]"


@pytest.mark.slow
def test_a_run_keeps_its_numbers_and_says_what_is_gone(filled: Filled) -> None:
    typed = {"reply": SECRET, "parameters": {"max_topics": 5}}
    Run.objects.filter(pk=filled.run.pk).update(changes=typed)
    erased(filled)
    filled.run.refresh_from_db()
    assert filled.run.changes == {**typed, "reply": "[erased]"}
    with pytest.raises(ForkError, match="have been erased"):
        fork(filled.run, changes={})
    assert (filled.run.query, filled.run.cost_usd, filled.run.turns) == ("Where is it?", 0.02, 2)
    events = [from_payload(row.kind, row.payload) for row in RunEvent.objects.order_by("seq")]
    assert [event.kind for event in events][-1] == "run_finished"
    finished = events[-1]
    assert finished.selected[0].id == f"Topic:{filled.topic.pk}"
    assert (finished.selected[0].reason, finished.selected[0].excerpt[0].message) == ("[erased]", None)
    assert events[6].prompt[0].content == "[erased]"
    assert not RawReply.objects.exists()


def test_words_of_erased_text_are_left_neither_one_by_one_nor_as_stems(filled: Filled) -> None:
    """A card's words are stored beside its text, a candidate's beside the query: no run of five words is in them."""
    Person.objects.filter(pk=filled.person.pk).update(bio=f"Swims. {SECRET}", updated_at=timezone.now())
    items.refresh(filled.owner)
    found = (replace(candidate(filled.other), terms={"zwiebelfisch": 0.5}),)
    asked = [RunStarted("vector", SECRET, {}, "", "", "p"), CandidatesFound(found, 1, 0.1), RunFinished((), (), "")]
    rewritten = QueryEnriched("And that?", SECRET, "", 0.1)
    of_query, of_rewrite = (
        stored_run(filled.owner, asked),
        stored_run(filled.owner, [RunStarted("vector", "And that?", {}, "", "", "p"), rewritten, *asked[1:]]),
    )
    other = stored_run(filled.owner, [RunStarted("vector", "Apples?", {}, "", "", "p"), *asked[1:]])
    Run.objects.filter(pk=of_query.pk).update(query=SECRET)
    erased(filled)
    for run, kept in ((of_query, {}), (of_rewrite, {}), (other, {"zwiebelfisch": 0.5})):
        payload = RunEvent.objects.get(run=run, kind="candidates_found").payload
        assert payload["candidates"][0]["terms"] == kept, "a query that stays keeps its words"
    RunEvent.objects.filter(run=other).delete()
    assert tables_with("zwiebelfisch") == set()
    items.refresh(filled.owner)
    assert filled.person.display_name in Card.objects.get(person=filled.person).text


@pytest.mark.slow
def test_an_answer_that_was_redacted_serves_no_later_question(filled: Filled) -> None:
    erased(filled)
    call = AgentCall.objects.get()
    assert (call.key, call.outcome) == ("", "erased")
    assert "message" not in call.events[0]


@pytest.mark.slow
def test_a_run_that_only_listed_the_topic_keeps_what_it_says_of_others(filled: Filled) -> None:
    events = events_about(filled.topic, filled.other, filled.message)
    run = stored_run(filled.owner, [events[0], events[2], events[3], type(events[8])((), (), "")])
    erased(filled)
    found, turn = (row.payload for row in RunEvent.objects.filter(run=run, seq__in=(2, 3)).order_by("seq"))
    assert found["candidates"][0]["summary"] == "[erased]"
    assert found["candidates"][1]["summary"] == filled.other.summary
    assert turn["prompt"][0]["content"] == f"[erased]\n[Topic:{filled.other.pk}] {filled.other.summary}"


@pytest.mark.slow
def test_topics_keep_the_messages_that_stay_and_get_a_summary_of_those(filled: Filled) -> None:
    erased(filled)
    topic = Topic.objects.get(pk=filled.topic.pk)
    assert (topic.message_count, topic.summary) == (1, "I will remember that.")
    assert topic.erased_at
    assert not TopicMessage.objects.filter(message=filled.message.pk).exists()
    assert PassageMessage.objects.filter(message__text="I will remember that.").count() == 1


@pytest.mark.slow
def test_an_older_edit_is_undone_without_the_erased_message(filled: Filled) -> None:
    erased(filled)
    curation.undo(filled.owner, filled.edit, actor="ada")
    merged = Topic.objects.of(filled.owner).live().exclude(pk=filled.other.pk).get()
    assert merged.message_count == 4
    assert tables_with("Zwiebelfisch") == set()
    assert list(violations()) == []


@pytest.mark.slow
def test_a_topic_that_loses_every_message_goes_with_its_edits(filled: Filled) -> None:
    rows = list(Message.objects.filter(topic=filled.topic))
    receipt = erased(filled, *rows)
    assert not Topic.objects.filter(pk=filled.topic.pk).exists()
    assert places(receipt) == []
    assert list(violations()) == []
    kept = TopicEdit.objects.get(pk=filled.edit.pk)
    curation.undo(filled.owner, kept, actor="ada")
    assert Topic.objects.of(filled.owner).live().exclude(pk=filled.other.pk).get().message_count == 3
    assert list(violations()) == []


@pytest.mark.slow
def test_every_message_erased_leaves_no_topic_and_no_edit(filled: Filled) -> None:
    erased(filled, *Message.objects.of(filled.owner))
    assert not Topic.objects.exists()
    assert not TopicEdit.objects.exists()
    assert not Passage.objects.exists()
    assert list(violations()) == []


@pytest.mark.django_db(transaction=True)
def test_the_laws_of_history_still_hold_for_everybody_else(filled: Filled) -> None:
    begun = erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada")
    assert begun.ended_at is None
    with pytest.raises(Exception, match="History stays"):
        TopicEdit.objects.filter(owner=filled.owner).delete()


@pytest.mark.slow
def test_words_that_somebody_else_says_too_are_not_looked_for(filled: Filled, boris: ChatUser) -> None:
    add_messages(boris, [record(1, f"Anna told me: {SECRET}")])
    receipt = erased(filled)
    assert not any(place.startswith("memoryapp_message") for place in places(receipt) or [])
    assert Message.objects.filter(owner=boris).count() == 1


def test_the_rows_of_others_are_not_read(filled: Filled, boris: ChatUser) -> None:
    """Statements, and rows that come from them, are as many whatever the others have; only an index finds theirs."""

    def read_by(target: Target) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        def noting(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            done = execute(sql, params, many, context)
            if "SELECT" in sql and re.search(r"memoryapp_(message|topic|fact|passage)\b", sql):
                seen.append((sql, context["cursor"].rowcount))
            return done

        with connection.execute_wrapper(noting):
            receipt = erasure.finish(erasure.begin(target, "ada"))
        assert receipt.ended_at
        return seen

    remaining = list(Message.objects.of(filled.owner).exclude(pk=filled.message.pk)[:2])
    alone = read_by(Target(filled.owner.pk, (remaining[0].pk,)))
    talk(boris, *((f"Tea number {n}", [f"green or black, {n}?", f"green, {n}"]) for n in range(100)))
    seen = read_by(Target(filled.owner.pk, (filled.message.pk,)))
    owned = re.compile(r"owner_id\"? (=|IN)|@@|\bid\"? (=|IN)|_id\"? (=|IN|= ANY)|= ANY")
    assert [sql for sql, _rows in seen if not owned.search(sql.partition("NOT (")[0])] == []
    assert max(rows for sql, rows in seen) < 100
    assert len(seen) < 2 * len(alone)


@pytest.mark.slow
def test_others_keep_their_rows(filled: Filled, boris: ChatUser) -> None:
    talk(boris, ("Tea", ["green or black?", "green"]))
    before = list(Topic.objects.of(boris).values())
    erased(filled)
    assert list(Topic.objects.of(boris).values()) == before


@pytest.mark.slow
def test_what_is_gone_cannot_be_erased_again(filled: Filled) -> None:
    erased(filled)
    with pytest.raises(erasure.NothingToErase, match="gone already"):
        erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada")


@pytest.mark.slow
def test_a_person_goes_with_history_and_mentions(filled: Filled) -> None:
    filled.person.bio = "captain of the rowing club since spring"
    filled.person.save()
    target = Target(filled.owner.pk, person=filled.person.pk, kind=Erasure.Kind.PERSON)
    receipt = erasure.finish(erasure.begin(target, "ada"))
    assert receipt.ended_at
    assert not Person.objects.exists()
    assert not KnowledgeEdit.objects.exists()
    assert tables_with("rowing club") == set()
    assert Message.objects.filter(pk=filled.message.pk).exists()
    assert PARAPHRASE in str(list(RunEvent.objects.values_list("payload")))


@pytest.mark.slow
def test_logs_lose_the_lines_that_quote(filled: Filled, folder: Path) -> None:
    log = folder / "postgres.log"
    log.write_text(f"started\nDETAIL:  Failing row contains (1, {SECRET}).\nended\n")
    size = log.stat().st_size
    receipt = erased(filled)
    assert log.read_text().split("\n")[0::2] == ["started", "ended"]
    assert log.stat().st_size == size
    assert (receipt.redacted["files"], places(receipt)) == (1, [])


@pytest.mark.slow
def test_undo_of_an_erasure_is_no_edit(filled: Filled) -> None:
    before = TopicEdit.objects.count()
    erased(filled)
    assert TopicEdit.objects.count() == before
    with pytest.raises(CurationError):
        curation.plan_edit(filled.owner, filled.topic.pk, "I will remember that.")


# What another program sent of an erased message goes from its runs too, and from the spans that wait for others.


@pytest.mark.slow
@pytest.mark.parametrize("has_ended", [False, True])
def test_nothing_of_an_erased_message_is_left_in_foreign_runs(filled: Filled, has_ended: bool) -> None:
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"Known: {SECRET}"}]}])
    chat = {"gen_ai.input.messages": asked, "gen_ai.operation.name": "chat", "gen_ai.request.model": "acme"}
    root = span(1, seconds=9.0, openinference__span__kind="CHAIN", input__value=f"Is it so: {SECRET}")
    spans = [search(2, 1, "the hive", SECRET, "Honey is sold."), span(4, 1, **chat), *([root] if has_ended else [])]
    arrival.take(filled.owner, wire.spans_in(json.dumps(request(*spans)).encode(), wire.JSON))
    assert any("tracespan" in name.lower() for name in tables_with("Zwiebelfisch"))
    if not has_ended:
        # An erasure waits for runs that may still write; this one ends as nothing comes any more.
        assert arrival.end_quiet(arrival.QUIET * 0) == [Run.objects.get(origin="other").pk]
    receipt = erased(filled)
    assert tables_with("Zwiebelfisch") == set()
    assert places(receipt) == []
    assert list(violations()) == []
    assert TraceSpan.objects.exists()


# What was erased is gone from every past, too.


@pytest.mark.django_db
def test_no_page_of_the_moment_before_shows_what_was_erased(filled: Filled, as_admin: Client) -> None:
    moment = f"as_of={written(timezone.now())}"
    of = f"/memory/{filled.owner.pk}/"
    pages = [f"{of}{page}?{moment}" for page in ("topics/", "people/", "facts/", "artifacts/", "messages/", "")]
    pages += [f"/topics/{filled.topic.pk}/?{moment}", f"/topics/{filled.topic.pk}/blame/?{moment}"]
    seen = "".join(get(as_admin, page) for page in pages)
    assert "Zwiebelfisch" in seen
    assert PARAPHRASE in seen
    erasure.finish(erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada"))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    left = "".join(as_admin.get(page).content.decode() for page in pages)
    assert "Zwiebelfisch" not in left
    assert SECRET not in left
    assert PARAPHRASE not in left
    for topic in Topic.objects.of(filled.owner):
        assert len(curation.blame(topic).line) > 0
