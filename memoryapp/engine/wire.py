"""Stored events as programs receive them: in today's form, with remarks as English sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from memoryapp.engine.earlier import upgraded
from memoryapp.engine.events import KINDS, CandidatesFound
from memoryapp.engine.json_values import to_text
from memoryapp.engine.notes import Note, english


def to_wire(kind: str, payload: str) -> str:
    """The JSON text of a stored payload, converted to the format for programs."""
    if kind == CandidatesFound.kind:
        return _in_words(upgraded(json.loads(payload)))
    return _in_words(json.loads(payload)) if '"notes"' in payload and _has_words(kind) else payload


def _has_words(kind: str) -> bool:
    """Whether programs get the remarks of these events as sentences too, in a field beside their codes."""
    return kind in KINDS and {"note", "notes"} <= {each.name for each in fields(KINDS[kind])}


def _in_words(stored: Mapping[str, Any]) -> str:
    """Replaces the codes of notes by sentences; remarks that were stored as words stay as they are."""
    sentences = english([Note(**note) for note in stored.get("notes", ())])
    return to_text({**stored, "note": sentences or stored.get("note", "")})
