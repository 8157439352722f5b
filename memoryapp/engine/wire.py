"""Stored events as programs receive them: each candidate is a value of its own, and remarks are English sentences."""

from __future__ import annotations

import json
from dataclasses import fields
from operator import itemgetter
from typing import Any

from memoryapp.engine.candidates import UnshownCandidates
from memoryapp.engine.events import KINDS, CandidatesFound
from memoryapp.engine.json_values import build, to_text
from memoryapp.engine.notes import Note, english


def to_wire(kind: str, payload: str) -> str:
    """The JSON text of a stored payload, converted to the format for programs."""
    if kind == CandidatesFound.kind:
        return _one_by_one(json.loads(payload))
    return _in_words(json.loads(payload)) if '"notes"' in payload and _has_words(kind) else payload


def _has_words(kind: str) -> bool:
    """Whether programs get the remarks of these events as sentences too, in a field beside their codes."""
    return kind in KINDS and {"note", "notes"} <= {each.name for each in fields(KINDS[kind])}


def _one_by_one(stored: dict[str, Any]) -> str:
    """All candidates in one list, best first."""
    unshown = build(UnshownCandidates, stored.pop("below", {}))
    ranked = [(each["rank"], each) for each in stored["candidates"]]
    ranked += [(each.rank, each) for each in unshown.candidates()]
    return _in_words({**stored, "candidates": [each for _rank, each in sorted(ranked, key=itemgetter(0))]})


def _in_words(stored: dict[str, Any]) -> str:
    """Replaces the codes of notes by sentences; remarks that were stored as words stay as they are."""
    sentences = english([Note(**note) for note in stored.get("notes", ())])
    return to_text({**stored, "note": sentences or stored.get("note", "")})
