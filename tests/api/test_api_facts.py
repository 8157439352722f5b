"""Facts over HTTP: added, corrected, deleted, and all of it undone; and messages forgotten by a token that may."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryapp.models import ChatUser, Erasure, Fact, Message, Topic
from tests.support.api_client import Program, error_of, token_for

pytestmark = pytest.mark.django_db(transaction=True)

ALLERGY = {"user": "anna", "content": "Allergic to peanuts", "category": "health", "importance": 90}


@pytest.fixture
def program(anna: ChatUser) -> Program:
    return Program(token_for(anna, scopes=("curate",)))


def sent(program: Program, method: str, path: str, **body: Any) -> Any:
    return program.ask(method, path, json.dumps(body).encode() if body else b"")


def test_a_fact_is_added_corrected_and_deleted_and_each_change_is_undone(anna: ChatUser, program: Program) -> None:
    added = program.post("/v1/facts", ALLERGY).json()
    fact = added["fact"]
    assert (fact["content"], fact["relation"], fact["type"], fact["state"]) == (
        *("Allergic to peanuts", "user", "context"),
        "current",
    )
    both = "Allergic to peanuts and walnuts"
    changed = sent(program, "patch", f"/v1/facts/{fact['id']}", content=both, reason="asked again").json()
    assert (changed["fact"]["content"], changed["fact"]["importance"]) == (both, 90)
    deleted = sent(program, "delete", f"/v1/facts/{fact['id']}").json()
    assert deleted["fact"] is None
    assert not Fact.objects.exists()
    for change, content in ((deleted, both), (changed, "Allergic to peanuts")):
        back = program.post(f"/v1/facts/changes/{change['change']}/undo", {}).json()
        assert (back["fact"]["id"], back["fact"]["content"]) == (fact["id"], content)
    assert program.post(f"/v1/facts/changes/{added['change']}/undo", {}).json()["fact"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({**ALLERGY, "content": " "}, 422),
        ({**ALLERGY, "importance": 101}, 422),
        ({**ALLERGY, "type": "rumour"}, 422),
        ({**ALLERGY, "owner": 1}, 422),
        ({**ALLERGY, "user": "boris"}, 404),
    ],
)
def test_what_is_no_fact_is_refused_and_the_next_one_is_stored(
    program: Program, boris: ChatUser, body: dict[str, Any], status: int
) -> None:
    assert error_of(program.post("/v1/facts", body))[0] == status
    assert not Fact.objects.exists()
    assert program.post("/v1/facts", ALLERGY).status_code == 200
    assert error_of(program.post("/v1/facts", ALLERGY))[0] == 422
    assert error_of(sent(program, "patch", f"/v1/facts/{Fact.objects.get().pk}", reason="nothing"))[0] == 422


def test_a_token_that_may_forget_erases_messages_of_its_user_alone(
    anna: ChatUser, boris: ChatUser, topics: list[Topic]
) -> None:
    forgetful, curious = (Program(token_for(anna, scopes=(scope,))) for scope in ("forget", "curate"))
    assert error_of(sent(curious, "delete", "/v1/messages/m2?user=anna"))[0] == 403
    assert error_of(sent(forgetful, "delete", "/v1/messages/m2?user=boris"))[0] == 404
    assert error_of(sent(forgetful, "delete", "/v1/users/anna"))[0] == 403
    receipt = sent(forgetful, "delete", "/v1/messages/m2?user=anna").json()
    assert receipt["counts"]["memoryapp_message"] == 1
    assert Erasure.objects.get(pk=receipt["erasure"]).ended_at is not None
    assert not Message.objects.filter(external_id="m2").exists()
    assert Message.objects.filter(external_id="m1").exists()
    assert error_of(sent(forgetful, "delete", "/v1/messages/m2?user=anna"))[0] == 404
