"""A run that answered in words, as a document: the text, and the message behind each of its citations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from memoryapp.engine.events import Event, RunFinished
from memoryapp.engine.kinds.react import Answered, Citation, StatementCheck
from memoryapp.engine.notes import english
from memoryapp.engine.strategies import PLANNING
from memoryapp.models import Message, Run
from memoryapp.runs import followers, recall_document


def answer_of(events: Sequence[Event]) -> Answered | None:
    """The answer of a run; None for a run that wrote none, or has not reached it yet."""
    return next((event for event in reversed(events) if isinstance(event, Answered)), None)


def document(run: Run) -> dict[str, Any]:
    """The answer of ``POST /v1/qa``. Raises LookupError for a run that has not ended."""
    events = [item.event for item in followers.stored(run.pk)]
    finished = events[-1] if events else None
    if not isinstance(finished, RunFinished):
        raise LookupError(f"Run {run.pk} has not ended.")
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "strategy": run.strategy,
        "agent": run.strategy in PLANNING,
        **_words(run, answer_of(events)),
        "fallback": finished.fallback or None,
        "cut": finished.cut,
        "usage": recall_document.usage(run),
    }


def _words(run: Run, answered: Answered | None) -> dict[str, Any]:
    if answered is None:
        nothing = {"answer": "", "text": "", "citations": [], "coverage": 0.0, "support": None}
        return {"outcome": "failed", **nothing, "verified": None, "statements": [], "by": None, "note": ""}
    messages = _cited(run, answered.citations)
    return {
        "outcome": answered.outcome,
        "answer": answered.text,
        "text": answered.text,
        "citations": [_citation(each, messages) for each in answered.citations if each.message in messages],
        "coverage": answered.coverage,
        "support": answered.support,
        "verified": _is_verified(answered),
        "statements": [_statement(each) for each in answered.statements],
        "by": None if answered.outcome == "passages" else answered.by,
        "note": english(answered.notes),
    }


def _is_verified(answered: Answered) -> bool | None:
    """Whether a model confirmed every statement that stayed, and no word contradicts one; None where none judged."""
    if not answered.statements:
        # Runs of earlier versions stored the share alone.
        return answered.support >= 1 if answered.judged and answered.support is not None else None
    return all(each.is_verified for each in answered.statements if each.kept) if answered.judged else None


def _statement(check: StatementCheck) -> dict[str, Any]:
    return {
        "text": check.text,
        "citations": list(check.numbers),
        "support": check.support,
        "missing": list(check.missing),
        "turned": list(check.turned),
        "verified": None if check.judged is None else check.is_verified,
        "kept": check.kept,
    }


def _cited(run: Run, citations: Sequence[Citation]) -> dict[int, Message]:
    """The cited messages and those of their passages by number, except for those that were erased."""
    numbers = {number for each in citations for number in (each.message, *each.passage)}
    return Message.objects.of(run.owner_id).in_bulk(numbers)


def _citation(citation: Citation, messages: Mapping[int, Message]) -> dict[str, Any]:
    message = messages[citation.message]
    return {
        "n": citation.n,
        "topic": citation.topic,
        "message": message.external_id,
        "author": message.author,
        "ts": message.sent_at.isoformat(),
        "quote": citation.quote,
        "passage": [messages[number].external_id for number in citation.passage if number in messages],
    }
