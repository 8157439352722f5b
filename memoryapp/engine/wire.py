"""Stored events as programs receive them: in today's form, with remarks as English sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memoryapp.engine.earlier import upgraded
from memoryapp.engine.events import CandidatesFound, RunFinished, TopicsRead
from memoryapp.engine.json_values import to_text
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.notes import Note, english


def to_wire(kind: str, payload: str) -> str:
    """The JSON text of a stored payload, converted to the format for programs."""
    if kind == CandidatesFound.kind:
        return _in_words(upgraded(json.loads(payload)))
    if kind in (TopicsRead.kind, Answered.kind, RunFinished.kind):
        return _in_words(json.loads(payload)) if '"notes"' in payload else payload
    return payload


def _in_words(stored: Mapping[str, Any]) -> str:
    """Replaces the codes of notes by sentences; remarks that were stored as words stay as they are."""
    sentences = english([Note(**note) for note in stored.get("notes", ())])
    return to_text({**stored, "note": sentences or stored.get("note", "")})
