"""The reasons for a suggestion, in sentences for people, made from the numbers that were stored with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.models import Suggestion
from memoryapp.suggestions.verdicts import verdict_in

_DAY = 86_400


def reasons(suggestion: Suggestion) -> list[str]:
    """Sentences in the active language, the most telling reason first."""
    words = _merge if suggestion.kind == Suggestion.Kind.MERGE else _split
    return list(words(suggestion.evidence))


def _merge(evidence: Mapping[str, Any]) -> Iterator[str]:
    yield from _verdict(verdict_in(evidence))
    near = {"similarity": _two_digits(evidence["similarity"]), "threshold": _two_digits(evidence["threshold"])}
    if evidence["similarity"] >= evidence["threshold"]:
        yield _("They are about the same: similarity %(similarity)s; pairs are suggested from %(threshold)s up.") % near
    else:
        yield _("They lie near each other, and what they share adds to it: similarity %(similarity)s.") % near
    if evidence["people"]:
        yield _("Both speak of %(people)s.") % {"people": ", ".join(evidence["people"])}
    together = evidence["together"]
    if together:
        yield ngettext(
            "%(together)d of the last %(runs)d runs chose both.",
            "%(together)d of the last %(runs)d runs chose both.",
            together,
        ) % {"together": together, "runs": evidence["runs"]}
    yield _days_apart(evidence["days_apart"])
    yield _("Merged they have %(chars)s characters.") % {"chars": _whole(evidence["size_chars"])}


def _verdict(verdict: MergeVerdict | None) -> Iterator[str]:
    if verdict is None:
        return
    if verdict.should_merge:
        yield _("The merger would make them one: %(reason)s") % {"reason": verdict.reason}
        if verdict.fault:
            yield _("Its summary could not be used, so a person decides; the proposed one quotes the messages.")
    elif verdict.reason:
        yield _("The merger would keep them apart: %(reason)s") % {"reason": verdict.reason}
    else:
        yield _("The merger would keep them apart.")


def _days_apart(days: int) -> str:
    if days < 1:
        return _("They were talked about on the same day.")
    return ngettext("%(days)d day lies between them.", "%(days)d days lie between them.", days) % {"days": days}


def _split(evidence: Mapping[str, Any]) -> Iterator[str]:
    size, limit = evidence["size_chars"], evidence["limit"]
    if size > limit:
        chars = {"chars": _whole(size), "limit": _whole(limit)}
        yield _("It has %(chars)s characters; above %(limit)s only excerpts are handed over.") % chars
    if evidence["similarity"] < evidence["usual"]:
        near = {"similarity": _two_digits(evidence["similarity"]), "usual": _two_digits(evidence["usual"])}
        yield (
            _("Its parts are no more similar than different topics are: similarity %(similarity)s, usually %(usual)s.")
            % near
        )
    gain = {"percent": round(100 * evidence["gain"])}
    yield _("How well two parts divide it: %(percent)d of 100, where 100 means that they share nothing.") % gain
    if evidence["pause_seconds"] >= _DAY:
        days = int(evidence["pause_seconds"] // _DAY)
        yield ngettext("The talk paused for %(days)d day there.", "The talk paused for %(days)d days there.", days) % {
            "days": days
        }
    yield _("Parts: %(parts)s messages.") % {"parts": " + ".join(str(count) for count, _chars in evidence["parts"])}


def _two_digits(value: float) -> str:
    return number_format(round(value, 2), decimal_pos=2)


def _whole(value: int) -> str:
    return number_format(value, force_grouping=True)
