"""What the tools of the strategy react report, in words: the names of values, and the codes among the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils.functional import Promise
from django.utils.translation import pgettext, pgettext_lazy

_NAMES: dict[str, Promise] = {
    "authors": pgettext_lazy("tool", "authors"),
    "by": pgettext_lazy("tool", "by"),
    "by_meaning": pgettext_lazy("tool", "by meaning"),
    "by_words": pgettext_lazy("tool", "by words"),
    "channels": pgettext_lazy("tool", "chats"),
    "citations": pgettext_lazy("tool", "sources"),
    "confidence": pgettext_lazy("tool", "confidence"),
    "coverage_est": pgettext_lazy("tool", "coverage"),
    "documents": pgettext_lazy("tool", "passages"),
    "documents_found": pgettext_lazy("tool", "passages found"),
    "evidence": pgettext_lazy("tool", "evidence"),
    "failure": pgettext_lazy("tool", "failure"),
    "hits": pgettext_lazy("tool", "found"),
    "kept_earlier": pgettext_lazy("tool", "earlier sources kept"),
    "left_out": pgettext_lazy("tool", "left out"),
    "meaning": pgettext_lazy("tool", "weight of meaning"),
    "messages": pgettext_lazy("tool", "messages"),
    "misquoted": pgettext_lazy("tool", "other sources say it"),
    "missing": pgettext_lazy("tool", "missing"),
    "moved": pgettext_lazy("tool", "moved"),
    "new": pgettext_lazy("tool", "new"),
    "queries": pgettext_lazy("tool", "queries"),
    "reasons": pgettext_lazy("tool", "because"),
    "relaxed": pgettext_lazy("tool", "filters widened"),
    "route": pgettext_lazy("tool", "preferred"),
    "since": pgettext_lazy("tool", "since"),
    "sources": pgettext_lazy("tool", "sources"),
    "tokens": pgettext_lazy("tool", "tokens"),
    "until": pgettext_lazy("tool", "until"),
    "verified": pgettext_lazy("tool", "verified"),
    "why": pgettext_lazy("tool", "because"),
    "words": pgettext_lazy("tool", "weight of words"),
}
_WAYS: dict[str, Promise] = {
    "bm25": pgettext_lazy("tool", "words"),
    "dense": pgettext_lazy("tool", "meaning"),
    "hybrid": pgettext_lazy("tool", "both alike"),
}
_DECIDERS: dict[str, Promise] = {
    "model": pgettext_lazy("tool", "a model"),
    "nobody": pgettext_lazy("tool", "no model"),
    "scorer": pgettext_lazy("tool", "the embedded scorer"),
    "words": pgettext_lazy("tool", "words"),
}
_REASONS: dict[str, Promise] = {
    "date": pgettext_lazy("tool", "names a day"),
    "descriptive": pgettext_lazy("tool", "asks for an explanation"),
    "found_little": pgettext_lazy("tool", "little was found"),
    "identifier": pgettext_lazy("tool", "names an identifier"),
    "long": pgettext_lazy("tool", "a long question"),
    "no_model": pgettext_lazy("tool", "none is connected"),
    "no_plan": pgettext_lazy("tool", "the model planned nothing"),
    "number": pgettext_lazy("tool", "names a number"),
    "quoted": pgettext_lazy("tool", "quotes words"),
    "short": pgettext_lazy("tool", "a short question"),
}
# Other values are texts of people and of models, which may happen to read like a code.
_CODES: dict[str, dict[str, Promise]] = {"route": _WAYS, "by": _DECIDERS, "reasons": _REASONS, "why": _REASONS}


def part_name(name: str) -> str:
    """What a value in the report of a tool is called; the tools of other programs name theirs themselves."""
    return str(_NAMES.get(name, name))


def part_words(value: Any, name: str) -> str:
    """The value of that ``name`` in the report of a tool, as ``plain_value`` but for codes, which are put in words."""
    codes = _CODES.get(name, {})
    if isinstance(value, bool):
        return pgettext("tool", "yes") if value else pgettext("tool", "no")
    if isinstance(value, str):
        return str(codes.get(value, value))
    if codes and isinstance(value, Sequence):
        return " · ".join(part_words(each, name) for each in value)
    return plain_value(value)


def plain_value(value: Any) -> str:
    """A number, a code or a list of them as a tool reports it; shares with two digits."""
    if isinstance(value, float):
        return floatformat(value, -2)
    if isinstance(value, Mapping):
        return " · ".join(f"{name} {plain_value(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " · ".join(map(plain_value, value))
    return str(value)
