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

from memoryapp.erasure.marks import Marks

ERASED = "[erased]"
# What programs that read events rely on, and what says nothing about the text.
_CODES = frozenset(
    (
        *("id", "kind", "role", "type", "mime_type", "model", "provider", "strategy", "profile", "prompt_version"),
        *("tool_choice", "response_format", "finish_reason", "fallback", "status", "excerpt_by", "call"),
        *("capability", "instead", "code", "cause", "sha256", "parent", "date", "stopped_by", "parameters", "found_by"),
    )
)
# Names of parts and tools are codes; names of people and files are not.
_NAMED_BY_CODE = frozenset(("chars", "arguments"))
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
            return {key: self.json(bare(item, key, value)) for key, item in value.items()}
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
                rows = [bare(row, key, table) if place in hidden else row for place, row in enumerate(rows)]
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


def _is_id(text: str) -> bool:
    return bool(_NAMED_ITEM.fullmatch(text.strip("[]")))


def bare(value: Any, key: str = "", beside: Mapping[str, Any] | None = None) -> Any:
    """Returns what is left of a value without its text; ``beside`` is the object that contains it under ``key``."""
    if isinstance(value, Mapping):
        return {name: bare(item, name, value) for name, item in value.items()} if key != "parameters" else value
    if isinstance(value, list):
        return [bare(item, key, beside) for item in value]
    if not isinstance(value, str) or not value or key in _CODES or _is_id(value):
        return value
    if key == "name" and _NAMED_BY_CODE & (beside or {}).keys():
        return value
    return "{}" if key == "arguments" else ERASED
