"""Redaction: replaces erased text in JSON and text by a mark, and leaves everything else unchanged.

A line is removed when it names an erased or touched row, or quotes erased words. An object about such a row loses all
its text. A model that read erased words may repeat them in its own, so of such a conversation only numbers, ids and
codes are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryapp.engine.events import KINDS, upgraded
from memoryapp.engine.json_values import KEY, code_names, rewritten
from memoryapp.erasure.marks import Marks

ERASED = "[erased]"
# In JSON that is no event: what is declared as a code in all kinds of events, or says nothing about the text.
_CODES = code_names(KINDS.values()) | {"id", "kind"}
# Parameters are read again, and who stopped a run is no part of the memory.
_KEPT = ("parameters", "stopped_by")
# By the words of the query that a candidate has, each alone: no mark recognises them.
_TERMS = "terms"
_NAMED_ITEM = re.compile(r"(?:Topic|Session|Person|Artifact):\d+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """``ids`` are the erased and touched rows as events name them, ``messages`` the numbers of erased messages.

    ``hides_terms`` says that the query itself was erased: then its words go, by which candidates were found.
    """

    marks: Marks
    ids: frozenset[str] = frozenset()
    messages: frozenset[int] = frozenset()
    hides_terms: bool = False

    def by_words(self) -> Redaction:
        """The same for text that may name the rows, because they are valid again."""
        return Redaction(self.marks, messages=self.messages)

    def names_any(self, text: str) -> bool:
        return not self.ids.isdisjoint(_NAMED_ITEM.findall(text))

    def text(self, text: str) -> str:
        """The text without the lines that name or quote; nothing of it if quoted words continue over the
        end of a line."""
        if not self.names_any(text) and not self.marks.quoted(text):
            return text
        lines = [ERASED if self.names_any(line) or self.marks.quoted(line) else line for line in text.split("\n")]
        left = "\n".join(lines)
        return ERASED if self.marks.quoted(left) else left

    def quotes_beside_names(self, value: Any) -> bool:
        """Whether erased words are in a line that names none of the rows: then somebody was shown the talk itself."""
        if isinstance(value, str):
            return any(self.marks.quoted(line) for line in value.split("\n") if not self.names_any(line))
        if isinstance(value, Mapping):
            return any(map(self.quotes_beside_names, value.values()))
        return isinstance(value, list) and any(map(self.quotes_beside_names, value))

    def json(self, value: Any) -> Any:
        """The value, with marks in place of what names or quotes."""
        if isinstance(value, str):
            return value if _is_id(value) else self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if self.hides_terms:
            value = {key: {} if key == _TERMS else item for key, item in value.items()}
        if isinstance(value.get("id"), str) and value["id"].strip("[]") in self.ids:
            return {key: self.json(bare(item, key)) for key, item in value.items()}
        if isinstance(value.get("id"), list):
            return self._columns(value)
        kept = {key: item for key, item in value.items() if not self.marks.quoted(key)}
        return self._located({key: self.json(item) for key, item in kept.items()})

    def _columns(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Rows as columns of equal length beside ``id``."""
        hidden = {place for place, name in enumerate(table["id"]) if name in self.ids}
        columns = {}
        for key, column in table.items():
            rows = self.json(column)
            if key != "id" and isinstance(rows, list):
                rows = [bare(row, key) if place in hidden else row for place, row in enumerate(rows)]
            columns[key] = rows
        return columns

    def _located(self, value: dict[str, Any]) -> dict[str, Any]:
        """A piece of an excerpt that was in an erased message has no location now."""
        if value.keys() >= {"text", "status", "message"} and value["message"] in self.messages:
            return value | {"text": ERASED, "status": "absent", "message": None, "start": 0, "end": 0}
        return value

    def bare(self, value: Any) -> Any:
        """The value reduced to numbers, ids and codes."""
        return self.json(bare(value))

    def bare_event(self, kind: str, payload: Mapping[str, Any]) -> Any:
        """The payload of an event, of which numbers, ids and what its kind declares as codes remain."""
        if kind not in KINDS:
            return self.bare(payload)
        return self.json(rewritten(KINDS[kind], upgraded(payload), _without_text))


def _is_id(text: str) -> bool:
    return bool(_NAMED_ITEM.fullmatch(text.strip("[]")))


def bare(value: Any, key: str = "") -> Any:
    """Returns what is left of a value without its text, which is in an object under ``key``."""
    if isinstance(value, Mapping):
        return value if key in _KEPT else {name: bare(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [bare(item, key) for item in value]
    return _without_text(value, (key,)) if isinstance(value, str) and key not in _CODES else value


def _without_text(text: str, path: tuple[str, ...]) -> str:
    if not text or path[0] in _KEPT or path[-1] in ("id", KEY) or _is_id(text):
        return text
    return "{}" if path[-1] == "arguments" else ERASED
