"""The parts of a candidate's score, in words: what each adds, in standard deviations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from django.template.defaultfilters import floatformat
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy

from memoryapp.engine.candidates import PARTS, NamedDates
from memoryapp.engine.memory import Where

NAMES: Mapping[str, Promise] = {
    "meaning": pgettext_lazy("part of a score", "meaning"),
    "words": pgettext_lazy("part of a score", "words"),
    "topic": pgettext_lazy("part of a score", "whole topic"),
    "summary": pgettext_lazy("part of a score", "summary"),
    "dates": pgettext_lazy("part of a score", "date"),
    "reply_alone": pgettext_lazy("part of a score", "a reply alone"),
    "instruction": pgettext_lazy("part of a score", "standing instruction"),
    "cross_encoder": pgettext_lazy("part of a score", "cross-encoder"),
}


@dataclass(frozen=True, slots=True)
class ScorePart:
    """What a part is called, and what it adds: ``+2.1``, in Russian ``+2,1``."""

    name: str | Promise
    added: str


def score_parts(parts: Mapping[str, float]) -> list[ScorePart]:
    """Those of a candidate, in their usual order; none for a run that did not keep them."""
    return [ScorePart(NAMES[part], _signed(parts[part])) for part in PARTS if parts.get(part)]


def is_by_summary(parts: Mapping[str, float]) -> bool:
    """Whether the words of a topic's summary add more to its score than any other part."""
    return bool(parts) and max(parts, key=lambda part: parts[part]) == "summary"


def _signed(added: float) -> str:
    """With one digit after the language's decimal mark, and a sign."""
    return ("+" if added > 0 else "") + floatformat(added, 1)


def sum_of_parts(parts: Mapping[str, float]) -> str:
    """All of them in brackets: " (meaning +3.1, date +2.1)"; nothing where none is known."""
    listed = ", ".join(f"{part.name} {part.added}" for part in score_parts(parts))
    return f" ({listed})" if listed else ""


def bounds(where: Where) -> str:
    """The first and the last day whose messages are found, as a sentence; empty where none is set."""
    since, until = map(_day, (where.since, where.until))
    if since and until:
        return gettext("Only messages from %(since)s to %(until)s.") % {"since": since, "until": until}
    if since:
        return gettext("Only messages since %(since)s.") % {"since": since}
    return gettext("Only messages until %(until)s.") % {"until": until} if until else ""


def _day(day: str) -> str:
    return date_format(date.fromisoformat(day), "DATE_FORMAT") if day else ""


def days(named: NamedDates) -> str:
    """The first and the last day, or the one day that is meant."""
    first, last = date.fromisoformat(named.first), date.fromisoformat(named.last)
    ends = [date_format(day, "DATE_FORMAT") for day in dict.fromkeys((first, last))]
    return " – ".join(ends)
