"""A run with any event that any version stored is erased from, and still opens on every page and for every program."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memoryapp import erasure
from memoryapp.engine.events import Event, PromptMessage, TurnStarted, from_payload, to_payload
from memoryapp.erasure import Target
from memoryapp.models import Run, RunEvent
from memoryapp.runs.journal import finished_columns
from tests.engine.test_events import STORED
from tests.erasure.conftest import SECRET, Filled
from tests.support.api_client import Program, token_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

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


def test_a_run_with_any_event_opens_after_what_it_read_was_erased(filled: Filled, as_admin: Client) -> None:
    runs = [
        (f"{line['kind']} {line['shape']} {len(prompts)}", stored(filled, line, prompts))
        for line in STORED
        if line["payload"] == LATEST[line["kind"]] or line["kind"] == "answered"
        for prompts in ((), (SECRET,))
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
