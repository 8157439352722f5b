"""Cells: memories in schemas of their own answer at every address as in one, and go whole from one to another."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.core.management.commands import migrate
from django.db import IntegrityError, connection, transaction
from django.db.models import Model
from django.test import Client
from pytest_django.fixtures import Settings

from memoryapp import curation, erasure
from memoryapp.curation import ChangeRequest
from memoryapp.engine.cells import NUMBERS, enter, made_in, within
from memoryapp.engine.sight import limited_to, looking
from memoryapp.insight.evaluation import passes
from memoryapp.models import ApiToken, ChatUser, Evaluation, Fact, GoldenQuestion, Message, Role, Run, Topic, Work
from memoryapp.platform import cells
from memoryapp.platform.accounts import tokens
from memoryapp.platform.database import WholeExecutor
from memoryapp.platform.sights import NoCell, schema, seen_schema, tables
from memoryapp.platform.statements import execute, fetched
from memoryapp.upkeep import tasks
from tests.conftest import fact_of, operator, signed_in, talk
from tests.doors.api.every_endpoint import asked, endpoints
from tests.platform.every_address import WORD, every_row, routes
from tests.support.api_client import EVERY_SCOPE, Program

pytestmark = pytest.mark.django_db

# What a cell has is compared by its definition, without the name of its schema.
PARTS = {
    "columns": """
        SELECT table_name, column_name, data_type, udt_name, is_nullable, is_identity, generation_expression,
               CASE WHEN is_identity = 'NO' THEN column_default END
        FROM information_schema.columns WHERE table_schema = %s AND table_name = ANY(%s)""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %s AND tablename = ANY(%s)",
    "checks": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(c.oid) FROM pg_constraint c
        JOIN pg_class t ON t.oid = conrelid WHERE relnamespace = %s::regnamespace AND relname = ANY(%s)
        AND contype <> 'f'""",
    "triggers": """
        SELECT pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class t ON t.oid = tgrelid
        WHERE relnamespace = %s::regnamespace AND relname = ANY(%s) AND NOT tgisinternal""",
    "options": "SELECT relname, reloptions FROM pg_class WHERE relnamespace = %s::regnamespace AND relname = ANY(%s)",
}


@pytest.fixture
def two(settings: Settings) -> Iterator[None]:
    """An installation with two cells, in which none is chosen."""
    settings.CELLS = 2
    cells.bring_up_to_date()
    with within(None):
        yield


def test_a_cell_has_what_the_first_tables_have(two: None) -> None:
    def part(query: str, number: int) -> Counter[str]:
        rows = fetched(query, [schema(number), list(tables())])
        # A condition that was read again has other brackets.
        return Counter(re.sub("[()]", "", str(row).replace(f"{schema(number)}.", "")) for row in rows)

    for name, query in PARTS.items():
        made, first = part(query, 1), part(query, 0)
        assert (made - first, first - made) == (Counter(), Counter()), name
        assert made
    views = "SELECT table_name FROM information_schema.views WHERE table_schema = %s"
    assert {*fetched(views, [seen_schema(1)])} == {
        row for row in fetched(views, [seen_schema(0)]) if row[0] in tables()
    }


def test_memories_are_laid_into_cells_in_turn_and_addresses_say_where(two: None) -> None:
    owners = [ChatUser.objects.create(name=f"u{number}") for number in range(6)]
    assert Counter(owner.cell for owner in owners) == {1: 3, 2: 3}
    for owner in owners[:2]:
        with within(owner.cell):
            message, run = talk(owner, ("Tea", ["Which?"]))[0].message_set.get(), Run.objects.create(owner=owner)
            assert message.pk // NUMBERS == made_in(message.pk) == made_in(run.pk) == owner.cell
        with within(3 - owner.cell):
            assert not Message.objects.filter(owner=owner).exists()


def test_no_statement_about_memories_is_sent_before_a_cell_is_chosen(two: None) -> None:
    for ask in (Message.objects.count, Topic.objects.first, lambda: fetched("SELECT 1 FROM memoryapp_fact")):
        with pytest.raises(NoCell):
            ask()
    assert ChatUser.objects.count() == 0


def test_a_row_is_refused_in_a_cell_that_is_not_its_memorys(two: None) -> None:
    anna = ChatUser.objects.create(name="anna")
    with pytest.raises(IntegrityError), transaction.atomic():
        too_late(anna, 3 - anna.cell)


def test_a_limited_actor_sees_its_projects_in_a_cell(two: None) -> None:
    anna = ChatUser.objects.create(name="anna")
    with within(anna.cell):
        for project in ("", "work", "home"):
            fact_of(anna, project or "common", project=project)
        with looking(limited_to(["work"])):
            assert {fact.content for fact in Fact.objects.all()} == {"common", "work"}


@pytest.mark.slow
def test_every_address_answers_as_in_one_cell(settings: Settings) -> None:
    with transaction.atomic():
        one = statuses(every_row(ChatUser.objects.create(name="anna")), "anna")
        transaction.set_rollback(True)
    settings.CELLS = 2
    cells.bring_up_to_date()
    anna = ChatUser.objects.create(name="anna")
    with within(anna.cell):
        memory = every_row(anna)
    found = statuses(memory, "anna")
    assert {key: (one[key], status) for key, status in found.items() if one[key] != status} == {}


def statuses(memory: dict[str, Model], name: str) -> dict[str, int]:
    """What an admin, a superuser and a token that may everything are answered, none of them in a cell."""
    client, root = signed_in(operator("ada", Role.ADMIN)), Client()
    root.force_login(User.objects.create_superuser("root"))
    found = {}
    for route in routes(memory):
        if route.name == "logout":
            break
        # They name the first operator, who is another one the second time.
        if re.match("operator|admin:(auth_user|memoryapp_operator)", route.name):
            continue
        key = f"{route.name} {route.path.count('/')}"
        found[key] = status((root if route.path.startswith("/admin") else client).get, route.path)
    program = Program(tokens.make("worker", [ApiToken.Scope(scope) for scope in EVERY_SCOPE], [])[1])
    numbers = [memory[noun].pk for noun in ("topic", "run", "topicedit", "fact", "knowledgeedit")]
    for place, endpoint in enumerate(endpoints(name, *numbers)):
        if "agent/stream" not in endpoint[1]:
            found[f"{place} {endpoint[0]}"] = status(asked, program, endpoint)
    return found


def status(ask: Callable[..., Any], *args: Any) -> int:
    with within(None):
        answer = ask(*args)
        if answer.streaming and not answer.is_async:
            b"".join(answer)
        return int(answer.status_code)


@pytest.mark.slow
def test_pages_over_all_memories_show_those_of_all_cells(two: None) -> None:
    owners = [ChatUser.objects.create(name=name, display_name=name) for name in ("anna", "boris")]
    for owner in owners:
        with within(owner.cell):
            Run.objects.create(owner=owner, query=f"{owner.name}?", strategy="flash", state="finished")
            talk(owner, (f"Of {owner.name}", ["Which?", "Green."]))
            Work.objects.create(owner=owner, kind="import", source=f"{owner.name}.json", state="failed")
    client = signed_in(operator("ada", Role.ADMIN))
    for path in ("/", "/runs/", "/quality/", "/pipeline/", "/work/"):
        with within(None):
            shown = client.get(path).content.decode()
        assert all(owner.name in shown for owner in owners), path


@pytest.mark.parametrize("to", [0, 1, 2])
def test_a_memory_moves_whole_and_keeps_its_addresses(to: int, two: None) -> None:
    anna = ChatUser.objects.create(name="anna")
    with within(anna.cell):
        memory = every_row(anna)
    home = anna.cell
    if to == home:
        with pytest.raises(CommandError, match="0 to 2"):
            call_command("move_memory", "anna", to)
        return
    before = held(anna, home)
    call_command("move_memory", "anna", to)
    enter(None)
    anna.refresh_from_db()
    assert anna.cell == to
    assert held(anna, to) == before
    assert held(anna, home) == Counter()
    client = signed_in(operator("ada", Role.ADMIN))
    for path in (f"/topics/{memory['topic'].pk}/", f"/runs/{memory['run'].pk}/", f"/memory/{anna.pk}/facts/"):
        with within(None):
            answer = client.get(path)
        assert answer.status_code == 200, path
        assert WORD in answer.content.decode(), path
    with within(to):
        made = fact_of(anna, "Made after the move")
        assert made_in(made.pk) == to
        connection.check_constraints()
    with pytest.raises(IntegrityError), transaction.atomic():
        too_late(anna, home)


def too_late(owner: ChatUser, number: int) -> None:
    """Writes into a cell in which the memory does not lie."""
    with within(number):
        fact_of(owner, "Too late")
        connection.check_constraints()


def held(owner: ChatUser, number: int) -> Counter[str]:
    """The rows of the memory in a cell, as text."""
    found: Counter[str] = Counter()
    with within(number):
        for table in tables():
            found.update(
                f"{table} {row}" for (row,) in fetched(f"SELECT t::text FROM {table} t WHERE owner_id = {owner.pk}")
            )
    return found


def test_a_move_that_breaks_off_leaves_the_memory_where_it_was(two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    anna = ChatUser.objects.create(name="anna")
    with within(anna.cell):
        every_row(anna)
    before, send = held(anna, anna.cell), cells.execute
    for last in (1, len(tables()), len(tables()) + 5, 2 * len(tables())):
        sent = 0

        def breaking(statement: str, values: Any = None, last: int = last) -> None:
            nonlocal sent
            sent += 1
            if sent == last:
                raise KeyboardInterrupt
            send(statement, values)

        monkeypatch.setattr(cells, "execute", breaking)
        with pytest.raises(KeyboardInterrupt):
            cells.move(ChatUser.objects.get(), 3 - anna.cell)
        assert held(anna, anna.cell) == before
        assert held(anna, 3 - anna.cell) == Counter()
    monkeypatch.undo()
    cells.move(ChatUser.objects.get(), 3 - anna.cell)
    assert held(anna, 3 - anna.cell) == before


def test_a_memory_is_edited_undone_and_erased_in_its_cell(two: None) -> None:
    anna, boris = (ChatUser.objects.create(name=name) for name in ("anna", "boris"))
    for owner in (anna, boris):
        with within(owner.cell):
            topics = talk(owner, ("Tea", ["Which tea?", "Green."]), ("Oboes", ["An oboe?", "Two."]))
            fact_of(owner, f"A fact that only {owner.name} has told anybody about")
            pair = tuple(topic.pk for topic in topics)
            merged = curation.make(ChangeRequest(curation.MERGE, owner, pair), actor="ada").edit
            curation.undo(owner, merged, actor="ada")
            assert {topic.summary for topic in Topic.objects.live()} == {"Tea", "Oboes"}
            connection.check_constraints()
    kept = held(boris, boris.cell)
    receipt = erasure.finish(erasure.begin_user(anna, "ada"))
    assert receipt.ended_at
    assert held(anna, anna.cell) == Counter()
    erasure.compare(receipt)
    assert held(boris, boris.cell) == kept
    call_command("verify_erasure", str(receipt.pk))
    call_command("check_memory")


def test_what_refers_to_a_deleted_row_of_all_memories_lets_it_go(two: None) -> None:
    anna, ada = ChatUser.objects.create(name="anna"), User.objects.create_user("ada")
    evaluation = Evaluation.objects.create(source="golden", strategy="flash")
    with within(anna.cell):
        kept = Run.objects.create(owner=anna, query="Tea?", strategy="flash", operator=ada)
        Run.objects.create(owner=anna, query="Coffee?", strategy="flash", evaluation=evaluation)
    with within(0):
        ada.delete()
        evaluation.delete()
    with within(anna.cell):
        assert Run.objects.get() == kept
        assert Run.objects.get().operator is None


def test_migrations_of_the_next_release_reach_every_cell(
    two: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "MigrationExecutor", WholeExecutor)
    anna = ChatUser.objects.create(name="anna")
    settings.MIGRATION_MODULES = {"memoryapp": "tests.fixtures.next_release"}
    call_command("migrate", "memoryapp", verbosity=0)
    for number in cells.numbers():
        columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s"
        found = {*fetched(columns, [schema(number)])}
        assert ("memoryapp_fact", "next") in found
        assert ("memoryapp_next", "owner_id") in found
        assert (("memoryapp_apitoken", "next") in found) == (number == 0)
    with within(anna.cell):
        fact_of(anna, "Likes tea")
        connection.check_constraints()
        (pk,) = fetched("INSERT INTO memoryapp_next (owner_id) VALUES (%s) RETURNING id", [anna.pk])[0]
        assert made_in(pk) == anna.cell
        views = fetched("SELECT count(*) FROM information_schema.views WHERE table_schema = %s", [seen_schema(1)])
        assert views[0][0] > 30
    call_command("migrate", "memoryapp", verbosity=0)


@pytest.mark.django_db(transaction=True)
def test_an_evaluation_asks_memories_of_several_cells(settings: Settings) -> None:
    settings.CELLS = 2
    cells.bring_up_to_date()
    try:
        with within(None):
            questions = []
            for name in ("anna", "boris"):
                owner = ChatUser.objects.create(name=name)
                with within(owner.cell):
                    tea, _oboes = talk(owner, ("Tea", ["Which tea?", "Green tea."]), ("Oboes", ["An oboe?", "Two."]))
                    evidence = list(tea.message_set.values_list("pk", flat=True))
                row = {"collection": "tea", "question": "Which tea?", "evidence": evidence, "made_by": "ada"}
                questions.append(GoldenQuestion.objects.create(owner=owner, **row))
            evaluation = passes.begin(questions, ["flash"], source="tea", by="ada")
            tasks.evaluate_asked()
            evaluation.refresh_from_db()
            assert evaluation.state == Evaluation.State.FINISHED
            for question in questions:
                with within(question.owner.cell):
                    run = Run.objects.get()
                    assert (run.state, run.fallback, run.events.last().kind) == ("finished", "", "run_finished")
    finally:
        for number in (1, 2):
            execute(f"DROP SCHEMA {seen_schema(number)}, {schema(number)} CASCADE")
