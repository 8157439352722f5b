"""A program undoes the automatic merges of one night: all of them or none, with a dry run if it wants one."""

from __future__ import annotations

from typing import Any

import pytest

from memoryapp import curation
from memoryapp.curation import history
from memoryapp.models import ChatUser, Topic, TopicEdit
from tests.consolidation.test_consolidation_pages import night
from tests.suggestions.placed_topics import renamed
from tests.support.api_client import Program, error_of, token_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ADDRESS = "/v1/edits/undo-night"


@pytest.fixture
def edits(anna: ChatUser, settings: Any) -> list[TopicEdit]:
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.8
    return night(anna, 0, 5, 90, 95)


def test_a_night_is_looked_at_undone_and_gone(anna: ChatUser, edits: list[TopicEdit]) -> None:
    program = Program(token_for(anna))
    planned = program.post(f"{ADDRESS}?dry_run=1", {"user": "anna"}).json()
    assert (planned["merges"], planned["edits"], Topic.objects.live().count()) == (2, [], 2)
    done = program.post(ADDRESS, {"user": "anna", "night": planned["night"], "reason": "too eager"}).json()
    assert {**done, "edits": []} == planned
    made = TopicEdit.objects.filter(pk__in=done["edits"])
    assert {(edit.undoes, edit.actor, edit.reason) for edit in made} == {
        (edit, "token a program", "too eager") for edit in edits
    }
    assert (history.nights(anna), Topic.objects.live().count()) == ([], 4)
    status, _code, sentence = error_of(program.post(ADDRESS, {"user": "anna"}))
    assert (status, sentence) == (409, "The program merged nothing that night, or it is undone already.")


def test_what_stands_on_one_of_them_is_named_and_nothing_is_undone(anna: ChatUser, edits: list[TopicEdit]) -> None:
    renamed(anna, curation.put_in(edits[0])[0], 0)
    refused = Program(token_for(anna)).post(ADDRESS, {"user": "anna"})
    assert error_of(refused)[:2] == (409, "depends")
    assert [edit["kind"] for edit in refused.json()["error"]["edits"]] == ["edit"]
    assert Topic.objects.live().count() == 2
