"""Events as runs of every release stored them: each can still be read, as JSON, with its notes, and means the same."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memoryapp.engine.events import (
    KINDS,
    CandidatesFound,
    ModelReplied,
    RunFinished,
    TopicsRead,
    from_payload,
    raw_message,
    to_json,
    to_payload,
    upgraded,
)
from memoryapp.engine.json_values import build, to_text
from memoryapp.engine.notes import ENGLISH, Note, english
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


# Payloads in the form of earlier versions, which a file of anybody may bear.


BELOW = {"id": ["Topic:2", "Topic:3"], "rank": [3, 2], "cosine": [0.2, 0.3]}


def test_what_was_not_shown_is_among_the_candidates_by_its_rank() -> None:
    read = upgraded({"candidates": [{"id": "Topic:1", "rank": 1}], "below": BELOW})
    assert [each["id"] for each in read["candidates"]] == ["Topic:1", "Topic:3", "Topic:2"]


@pytest.mark.parametrize(
    "below",
    [
        "abc",
        7,
        {**BELOW, "rank": [1]},
        {**BELOW, "rank": ["x", 1]},
        {**BELOW, "parts": {"words": [1.0]}},
        {**BELOW, "parts": [1]},
        {**BELOW, "terms": 5},
        {"id": ["Topic:2"]},
    ],
)
def test_what_no_version_stored_is_a_value_error(below: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        upgraded({"candidates": [], "below": below})


# Events as JSON text and back: nothing is lost, and the database accepts everything.


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    words: tuple[Word, ...]
    numbers: tuple[int, ...] = ()
    last: Word | None = None
    main: Word = Word("none")


def test_a_value_comes_back_as_it_was() -> None:
    line = Line((Word("привет", {"a": 0.1}), Word("b\\u0000")), (1, 2), None, Word("main"))
    assert build(Line, json.loads(to_text(line))) == line


def test_what_no_database_stores_is_replaced_wherever_it_stands() -> None:
    stored = json.loads(to_text(Line((Word("a\x00b \ud800", {"\x00": 1.0}),))))
    assert stored["words"][0] == {"text": "a\ufffdb \ufffd", "weights": {"\ufffd": 1.0}}


def test_a_field_that_came_later_has_its_default_and_an_unknown_one_is_left_out() -> None:
    assert build(Line, {"words": [{"text": "a"}], "colour": "red"}) == Line((Word("a"),))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match="Word lacks text"):
        build(Line, {"words": [{}]})


# Notes in events are codes with values; programs read the sentences that runs have always stored.


IDS = ["Topic:1", "Topic:2"]
ASKED: dict[str, Any] = {
    **{"host": "models.example", "url": "https://models.example/v1/embeddings", "status": 503, "quoted": "overloaded"},
    **{"seconds": 60.0, "bytes": 32_000_000, "vectors": 2, "texts": 3, "got": 3, "wanted": 512},
    **{"profile": "models.example/e5@512", "provider": "models.example"},
}
VALUES: dict[str, dict[str, Any]] = {
    "stopped": {"by": "ada"},
    **dict.fromkeys((code for code in ENGLISH if code.startswith(("endpoint_", "embedder_"))), ASKED),
    **dict.fromkeys(("model_refused", "answer_filtered", "question_late", "turn_late"), ASKED),
    **dict.fromkeys(
        ("media_missing", "media_unreadable", "media_changed"), {"hash": "2c26b46b68ff", "error": "No file"}
    ),
    "file_too_large": {"most": 20_000_000},
    **dict.fromkeys(("takes_no_audio", "takes_no_image"), {"model": "acme/flash"}),
    "embedding_failed": {"words": "HTTP 503: overloaded"},
    "no_vector_in_time": {"seconds": 2.5},
    "no_such_tool": {"name": "launch_rockets", "tools": ["get_topics_content"]},
    "cut": {"limit": 1000, "ids": IDS},
    "none_similar": {"best": 0.2, "threshold": 0.3},
    "low_coverage": {"coverage": 0.4, "least": 0.5},
    "unsupported": {"support": 0.33, "least": 0.5},
    **dict.fromkeys(("statements_uncited", "statements_unsupported", "wrong_citations", "calls_taken_apart"), {"n": 2}),
    **dict.fromkeys(
        ("nothing_within", "filters_widened", "filters_guessed"), {"filters": "since:2026-05-01 author:Anna"}
    ),
    "answer_in_call": {"name": "answer"},
    "turn_cut_off": {"seconds": 2.5},
    "filters_unread": {"filters": ["since:soon"]},
    "phrase_absent": {"phrases": ["“plum tart”"]},
    "said_by_others": {"named": "Melanie", "who": "Caroline"},
    "all_filtered": {"best": 0.47, "threshold": 0.5, "found": 2},
}
IN_WORDS = [line for line in STORED if line["kind"] != "query_enriched" and line["payload"].get("note")]
# Notes about an embedding model repeat its own words.
OURS = [
    line for line in IN_WORDS if line["kind"] != "candidates_found" and line["payload"].get("fallback") != "no_vectors"
]


def notes() -> list[Note]:
    """Every code with values, and every reason for a fallback."""
    instead = [{"instead": how} for how in ("nothing", "requested", "nearest")]
    return [Note(code, {"ids": IDS, **values, **VALUES.get(code, {})}) for code in ENGLISH for values in instead]


@pytest.mark.parametrize("line", OURS, ids=lambda line: line["shape"])
def test_each_sentence_that_was_ever_stored_still_exists(line: dict[str, Any]) -> None:
    known = [re.escape(english([note])).replace("Topic:1,\\ Topic:2", ".+").replace("1000", r"\d+") for note in notes()]
    assert re.fullmatch(f"(?:(?:{'|'.join(known)}) ?)+", line["payload"]["note"])


@pytest.mark.parametrize("line", IN_WORDS, ids=lambda line: line["shape"])
def test_words_that_are_stored_go_out_as_they_are(line: dict[str, Any]) -> None:
    assert json.loads(to_wire(line["kind"], json.dumps(line["payload"])))["note"] == line["payload"]["note"]


def test_programs_read_the_sentence_and_the_code() -> None:
    notes = (Note("not_candidates", {"ids": IDS}), Note("already_loaded", {"ids": ["Topic:3"]}))
    read = json.loads(to_wire(TopicsRead.kind, to_json(TopicsRead(1, "c", (), (), (), 0, notes=notes))))
    assert read["note"] == "Not among the candidates: Topic:1, Topic:2. Already loaded above: Topic:3."
    assert [note["code"] for note in read["notes"]] == ["not_candidates", "already_loaded"]
    stopped = RunFinished((), (), "stopped", notes=(Note("stopped", {"by": "ada"}),), stopped_by="ada")
    ended = json.loads(to_wire(RunFinished.kind, to_json(stopped)))
    assert ended["note"] == "ada stopped this run before the model had chosen."


def test_a_code_of_another_release_stands_for_itself() -> None:
    assert english([Note("moon_phase", {"ids": IDS})]) == "moon_phase"
