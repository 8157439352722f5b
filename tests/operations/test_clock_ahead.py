"""A clock that was ahead and was corrected: rows with later times block nothing until that time comes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from memoryapp import erasure
from memoryapp.curation import suggestions
from memoryapp.intake import artifacts
from memoryapp.intake.imports import IMPORT
from memoryapp.models import Artifact, ChatUser, Erasure, Role, Run, Suggestion, Work
from memoryapp.platform import work
from memoryapp.platform.work import ARCHIVE
from memoryapp.runs import endings, lifecycle
from tests.conftest import operator
from tests.suggestions.placed_topics import only, placed

AHEAD = timedelta(days=400)

pytestmark = pytest.mark.django_db


def test_the_run_of_a_process_that_died_then_is_closed(anna: ChatUser) -> None:
    run = lifecycle.start(anna, "a question")
    Run.objects.update(state=Run.State.RUNNING, heartbeat_at=timezone.now() + AHEAD, attempt=9)
    assert endings.close_abandoned() == 1
    run.refresh_from_db()
    assert run.fallback == "abandoned"


def test_a_run_that_was_asked_for_then_is_executed(anna: ChatUser) -> None:
    run = lifecycle.start(anna, "a question")
    Run.objects.update(created_at=timezone.now() + AHEAD)
    assert lifecycle.unclaimed() == [run.pk]


def test_a_file_that_was_put_off_then_is_read(anna: ChatUser, settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    artifacts.put(anna, "bread.txt", "text/plain", b"Rye bread with caraway seeds.")
    Artifact.objects.update(due_at=timezone.now() + AHEAD)
    assert artifacts.process_due() == 1


def test_a_suggestion_that_was_leased_then_is_free(anna: ChatUser) -> None:
    ada, bob = operator("ada", Role.CURATOR, anna), operator("bob", Role.CURATOR, anna)
    placed(anna, 0, 1)
    found = only(anna)
    suggestions.lease(found, ada.user)
    Suggestion.objects.update(held_at=timezone.now() + AHEAD)
    found.refresh_from_db()
    assert suggestions.holder(found) is None
    assert suggestions.lease(found, bob.user) == bob.user


def test_work_that_was_cut_off_then_does_not_go_on_for_ever(anna: ChatUser) -> None:
    Work.objects.create(owner=anna, kind="import", state=Work.State.GOING_ON, at=timezone.now() + AHEAD)
    Work.objects.update(at=timezone.now() + AHEAD)
    assert work.current(anna, IMPORT) is None
    assert work.unfinished(ChatUser.objects.all()) == []


def test_what_was_asked_for_then_is_done_once(anna: ChatUser) -> None:
    """It was requested by a process whose clock is ahead of the worker's."""
    work.ask_to_archive(anna, "ada")
    Work.objects.update(asked_at=timezone.now() + AHEAD)
    with work.tracked(anna, ARCHIVE):
        pass
    assert not work.AskedSessions.of(anna)


def test_who_asks_while_it_is_done_is_not_forgotten(anna: ChatUser) -> None:
    work.ask_to_archive(anna, "ada")
    with work.tracked(anna, ARCHIVE):
        work.ask_to_archive(anna, "bob")
    assert work.AskedSessions.of(anna)


def test_an_erasure_that_ended_then_is_looked_at_once_more(anna: ChatUser) -> None:
    now = timezone.now()
    Erasure.objects.create(
        kind=Erasure.Kind.USER, owner_number=anna.pk, actor="ada", salt=b"x" * 32, ended_at=now + AHEAD
    )
    assert erasure.due().count() == 1
