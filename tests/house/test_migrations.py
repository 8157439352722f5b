"""Migrations over existing rows: which values they write, and that they can be reversed."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memoryapp.models import ChatUser, Run, RunEvent

pytestmark = pytest.mark.slow

SQUASHED = ("memoryapp", "0001_squashed_0037_thresholds_decided")
BEFORE, COUNTED = "0005_prompt_in_force", "0006_people_and_artifacts_chosen"
PERSON, FILE = {"id": "Person:5", "rank": 1}, {"id": "Artifact:3", "rank": 1}
ENDS: dict[str, Any] = {
    "who and which": {"selected": [{"id": "Topic:1"}], "people": [PERSON], "artifacts": [FILE, FILE]},
    "who": {"selected": [], "people": [PERSON, PERSON]},
    "what": {"selected": [{"id": "Topic:1"}], "people": [], "artifacts": []},
    "from before people": {"selected": [{"id": "Topic:1"}]},
    "of another make": {"selected": [], "people": None, "artifacts": "none"},
}
CHOSEN = {
    "who and which": (1, 2),
    "who": (2, 0),
    "what": (0, 0),
    "from before people": (0, 0),
    "of another make": (0, 0),
    "going on": (0, 0),
}


def migrate(to: str) -> None:
    """Applies the migrations one at a time, as in a database that has some of them."""
    with connection.cursor() as cursor:
        # A table cannot be altered while deferred checks of its rows are pending.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    executor = MigrationExecutor(connection)
    executor.loader = loader = MigrationLoader(connection, replace_migrations=False)
    loader.graph.remove_replacement_node(SQUASHED, loader.replacements[SQUASHED].replaces)
    executor.migrate([("memoryapp", to)])


def forget_after(name: str) -> None:
    """Removes the records of the migrations after this one; the tables stay."""
    MigrationRecorder(connection).migration_qs.filter(app="memoryapp", name__gt=name).delete()


def columns() -> set[str]:
    with connection.cursor() as cursor:
        return {column.name for column in connection.introspection.get_table_description(cursor, "memoryapp_run")}


def checks() -> list[str]:
    """Returns the columns of runs that have a check, each once for every check."""
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "memoryapp_run").values()
    return sorted(column for constraint in found if constraint["check"] for column in constraint["columns"])


def counted() -> dict[str, tuple[int, int]]:
    rows = Run.objects.values_list("query", "selected_people_count", "selected_artifact_count")
    return {query: (people, artifacts) for query, people, artifacts in rows}


@pytest.fixture
def runs(anna: ChatUser) -> None:
    """Creates one run for each end, with counts that no migration has set, and one that has not ended."""
    for query, payload in ENDS.items():
        run = Run.objects.create(owner=anna, query=query, strategy="flash", state="finished")
        for seq, kind in enumerate(("run_started", "run_finished"), start=1):
            stored = payload if kind == "run_finished" else {"people": [PERSON]}
            RunEvent.objects.create(owner=anna, run=run, seq=seq, kind=kind, at=timezone.now(), payload=stored)
    Run.objects.create(owner=anna, query="going on", strategy="flash", state="running")


@pytest.mark.usefixtures("runs")
def test_past_runs_get_the_counts_of_people_and_files_they_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is independent of how many events are read at once, and works without runs."""
    bounded = checks()
    for at_once in (1, 3, 10_000):
        monkeypatch.setattr(f"memoryapp.migrations.{COUNTED}.EVENTS_AT_ONCE", at_once)
        migrate(BEFORE)
        assert not {"selected_people_count", "selected_artifact_count"} & columns()
        migrate(COUNTED)
        assert counted() == CHOSEN, at_once
        # Columns that later migrations bring are not there yet.
        assert checks() == [name for name in bounded if name in columns()]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM memoryapp_runevent; DELETE FROM memoryapp_run")
    migrate(BEFORE)
    migrate(COUNTED)
    assert counted() == {}


@pytest.mark.usefixtures("runs")
def test_a_migration_that_was_cut_short_is_done_again() -> None:
    bounded = checks()
    forget_after(BEFORE)
    Run.objects.filter(query="who").update(selected_people_count=2)
    migrate(COUNTED)
    assert counted() == CHOSEN
    assert checks() == bounded
