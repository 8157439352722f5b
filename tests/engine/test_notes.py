"""Notes in events are codes with values; programs read the sentences that runs have always stored."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from memoryapp.engine.events import RunFinished, TopicsRead, to_json
from memoryapp.engine.notes import ENGLISH, Note, english
from memoryapp.engine.outline import to_wire
from tests.engine.test_events import STORED

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
