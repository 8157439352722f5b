"""Events as runs of every release stored them: each can still be read, and has the same meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryapp.engine.events import KINDS, CandidatesFound, ModelReplied, from_payload, raw_message, to_payload
from memoryapp.engine.outline import summarise, to_wire

# One stored event a line, of every kind and of every shape it has had. When the shape of an event changes, a line is
# added; an existing line is never changed.
STORED = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "fixtures/events_v1.jsonl").read_text(encoding="utf-8").splitlines()
]
# The text of the best passage, which runs no longer store.
FORGOTTEN = {"passage"}


def lost(stored: Any, read: Any, path: str = "") -> Iterator[str]:
    """Returns the fields in which ``read`` differs from ``stored``."""
    if isinstance(stored, dict) and isinstance(read, dict):
        for name in stored.keys() - FORGOTTEN:
            yield from lost(stored[name], read.get(name), f"{path}.{name}")
    elif isinstance(stored, list) and isinstance(read, list) and len(stored) == len(read):
        for place, item in enumerate(stored):
            yield from lost(item, read[place], f"{path}[{place}]")
    elif stored != read:
        yield f"{path}: {stored!r} became {read!r}"


def one_by_one(payload: dict[str, Any]) -> dict[str, Any]:
    """Returns the payload with what was stored as columns, of topics that were not shown, among the candidates."""
    below = payload.get("below", {})
    rows = (
        [{name: below[name][place] for name in below if type(below[name]) is list} for place in range(len(below["id"]))]
        if below
        else []
    )
    for place, row in enumerate(rows):
        row["terms"] = below.get("terms", {}).get(row["id"], {})
        row["parts"] = {name: adds[place] for name, adds in below.get("parts", {}).items()}
    rest = {name: value for name, value in payload.items() if name != "below"}
    return {**rest, "candidates": payload["candidates"] + rows} if rows else rest


@pytest.mark.parametrize("line", STORED, ids=lambda line: f"{line['kind']} {line['shape']}")
def test_a_stored_event_keeps_its_meaning(line: dict[str, Any]) -> None:
    event = from_payload(line["kind"], line["payload"])
    assert list(lost(one_by_one(line["payload"]), to_payload(event))) == []
    assert from_payload(line["kind"], to_payload(event)) == event
    assert json.loads(to_wire(line["kind"], json.dumps(line["payload"])))


@pytest.mark.parametrize(
    "line", [line for line in STORED if line["kind"] == "candidates_found"], ids=lambda line: line["shape"]
)
def test_every_candidate_that_was_ranked_is_listed(line: dict[str, Any]) -> None:
    payload = line["payload"]
    stored = [candidate["id"] for candidate in payload["candidates"]] + payload.get("below", {}).get("id", [])
    event = from_payload(line["kind"], payload)
    assert isinstance(event, CandidatesFound)
    assert sorted(candidate.id for candidate in event.candidates) == sorted(stored)
    assert [candidate["id"] for candidate in json.loads(to_wire(line["kind"], json.dumps(payload)))["candidates"]] == [
        candidate.id for candidate in event.candidates
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_an_event_has_been_stored_once(kind: str) -> None:
    stored = [line["payload"] for line in STORED if line["kind"] == kind]
    assert {name for payload in stored for name in payload} >= to_payload(from_payload(kind, stored[-1])).keys()


def test_events_of_all_shapes_add_up() -> None:
    totals = summarise(from_payload(line["kind"], line["payload"]) for line in STORED)
    assert (totals.turns, totals.tool_calls) == (5, 4)


def test_a_raw_message_is_kept_in_its_order_beside_the_payload() -> None:
    message = {"role": "assistant", "zeta": 2.50, "alpha": [1e-7]}
    event = ModelReplied(1, "", "", (), 0, 0, 0.0, 0.1, "m", message=message)
    assert raw_message(event) == '{"role":"assistant","zeta":2.5,"alpha":[1e-7]}'
    assert "message" not in to_payload(event)
    assert raw_message(ModelReplied(1, "", "", (), 0, 0, 0.0, 0.1, "m")) == ""
