"""A foreign run on the pages of people and in the API: shown, compared, downloaded, and refused where it cannot be."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from memoryapp.insight import capsules, delivery
from memoryapp.insight.capsules import capsule_of, document
from memoryapp.models import ChatUser, Run
from memoryapp.runs import lifecycle
from rerankui.runs import fragments
from tests.support.api_client import Program, error_of, token_for
from tests.traces.sent import request, search, span

PATH = "/v1/otlp/v1/traces"
ROOT = {"openinference__span__kind": "CHAIN", "input__value": "Who looks after the bees?"}
pytestmark = pytest.mark.django_db(transaction=True)
TEXTS = ("Vera keeps nine hives of bees.", "The barn is red.")


def foreign(owner: ChatUser, *texts: str, trace: str = "0" * 31 + "1") -> Run:
    """A finished run of another program, whose model was sent the first text alone."""
    sent = json.dumps([{"role": "user", "parts": [{"type": "text", "content": texts[0] if texts else "hello"}]}])
    chat = {"gen_ai.input.messages": sent, "gen_ai.operation.name": "chat", "gen_ai.request.model": "acme"}
    spans = [
        span(1, seconds=9.0, trace=trace, **ROOT),
        search(2, 1, "bees", *texts, trace=trace),
        span(4, 1, trace=trace, **chat),
    ]
    program = Program(token_for(owner, scopes=("ingest",)))
    assert program.post(PATH, request(*spans, service="beekeeper")).status_code == 200
    return Run.objects.of(owner).latest("heartbeat_at")


def test_the_page_shows_the_run_and_says_what_is_missing(anna: ChatUser, as_debugger: Client) -> None:
    run = foreign(anna, *TEXTS)
    page = as_debugger.get(f"/runs/{run.pk}/").content.decode()
    assert "Document:d1" in page
    assert "beekeeper" in page
    assert (
        "The program did not send the answers of its model. It sent no reasoning. It sent no counts of tokens." in page
    )
    assert f"/runs/{run.pk}/fork/" not in page
    assert f"/runs/{run.pk}/filter/" not in page
    shown = as_debugger.get(f"/runs/{run.pk}/documents/d2/").content.decode()
    assert TEXTS[1] in shown
    assert as_debugger.get(f"/runs/{run.pk}/documents/d9/").status_code == 404
    for place in ("fork", "filter", "grades", "lab"):
        assert as_debugger.get(f"/runs/{run.pk}/{place}/").status_code == 404


def test_whoever_follows_gets_the_whole_run_with_each_frame(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    frame = fragments.frame(run.pk, seen=fragments.Seen(1), language="en")
    assert frame.finished
    assert 'id="run-summary"' in frame.html
    assert frame.html.count("data-event ") == run.events.count()


def test_why_not_answers_as_far_as_the_trace_says(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    program = Program(token_for(anna, scopes=("read", "recall")))
    address = f"/v1/runs/{run.pk}/why_not"
    chosen = json.loads(program.get(f"{address}?topic=Document:d1").content)
    assert (chosen["stage"], chosen["numbers"]) == ("chosen", {"rank": 1})
    left = json.loads(program.get(f"{address}?text=barn").content)
    assert (left["stage"], left["topic"]) == ("not_chosen", "Document:d2")
    assert json.loads(program.get(f"{address}?text=honey").content)["stage"] == "unknown"
    assert error_of(program.get(f"{address}?message=m1"))[0] == 422


def test_it_is_forked_nowhere_and_says_why(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    program = Program(token_for(anna, scopes=("recall", "read")))
    status, _code, sentence = error_of(program.post(f"/v1/runs/{run.pk}/fork", {"turn": 1, "changes": {}}))
    assert status == 422
    assert "beekeeper" in sentence


def test_two_programs_are_compared_by_their_documents(anna: ChatUser) -> None:
    one, other = foreign(anna, *TEXTS), foreign(anna, TEXTS[0], trace="0" * 31 + "2")
    program = Program(token_for(anna, scopes=("read",)))
    compared = json.loads(program.get(f"/v1/compare?run={one.pk}&run={other.pk}").content)
    assert compared["first_divergence"]["stage"] == "search"
    states = {topic["id"]: topic["in"] for topic in compared["topics"]}
    assert states["Document:d1"] == {str(one.pk): "chosen", str(other.pk): "chosen"}
    assert states["Document:d2"] == {str(one.pk): "shown", str(other.pk): "absent"}
    assert {topic["id"]: topic["summary"] for topic in compared["topics"]}["Document:d2"] == TEXTS[1]


def test_a_file_of_it_opens_elsewhere_and_an_answer_is_compared_with_its_documents(anna: ChatUser) -> None:
    run = foreign(anna, *TEXTS)
    opened = capsules.opened(json.dumps(document(capsule_of(run))).encode())
    assert [item.event.kind for item in opened.events][-1] == "run_finished"
    used = delivery.deliver(run, "As I know, Vera keeps nine hives of bees. Ask her.")
    assert [(use.id, use.how) for use in used.uses] == [("Document:d1", "quoted")]


def test_the_list_is_narrowed_by_origin_and_figures_of_the_memory_leave_it_out(
    anna: ChatUser, as_debugger: Client
) -> None:
    run, own = foreign(anna, *TEXTS), lifecycle.start(anna, "What did Vera say?")
    of_program = as_debugger.get("/runs/?origin=beekeeper").content.decode()
    assert f"run-row-{run.pk}" in of_program
    assert f"run-row-{own.pk}" not in of_program
    of_memory = as_debugger.get("/runs/?origin=+").content.decode()
    assert f"run-row-{run.pk}" not in of_memory
    assert f"run-row-{own.pk}" in of_memory
    assert [each.pk for each in Run.objects.made_here()] == [own.pk]


def test_a_stranger_sees_nothing_of_it(anna: ChatUser, as_stranger: Client) -> None:
    run = foreign(anna, *TEXTS)
    assert as_stranger.get(f"/runs/{run.pk}/").status_code == 404
    assert as_stranger.get(f"/runs/{run.pk}/documents/d1/").status_code == 404
