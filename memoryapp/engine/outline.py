"""A run's events at a glance: the single ones, the model's replies, and the totals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from memoryapp.engine import events as kinds
from memoryapp.engine.budget import Usage
from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.json_values import to_text
from memoryapp.engine.kinds.kind import Totals
from memoryapp.engine.kinds.react import Answered, ToolUsed
from memoryapp.engine.notes import Note, english

_Kind = TypeVar("_Kind", kinds.RunStarted, kinds.QueryEnriched, kinds.CandidatesFound, kinds.TurnStarted)


@dataclass(frozen=True, slots=True)
class Outline:
    """Each event is None when the run did not reach it; ``turn`` is the first turn. In a run that lost events any of
    them may be missing, even when later ones exist."""

    started: kinds.RunStarted | None = None
    enriched: kinds.QueryEnriched | None = None
    found: kinds.CandidatesFound | None = None
    turn: kinds.TurnStarted | None = None
    replies: tuple[kinds.ModelReplied, ...] = ()
    finished: kinds.RunFinished | None = None

    @classmethod
    def of(cls, events: Sequence[kinds.Event]) -> Outline:
        last = events[-1] if events else None
        return cls(
            started=_first(events, kinds.RunStarted),
            enriched=_first(events, kinds.QueryEnriched),
            found=_first(events, kinds.CandidatesFound),
            turn=_first(events, kinds.TurnStarted),
            replies=tuple(event for event in events if isinstance(event, kinds.ModelReplied)),
            finished=last if isinstance(last, kinds.RunFinished) else None,
        )

    def topic(self, id: str) -> Candidate | None:
        return next((each for each in (self.found.candidates if self.found else ()) if each.id == id), None)

    def item(self, id: str) -> ItemCandidate | None:
        """The person or artifact with that id as the search found it."""
        found = (*self.found.people, *self.found.artifacts) if self.found else ()
        return next((each for each in found if each.id == id), None)

    def selected(self, id: str) -> kinds.Selected | None:
        """The topic, person or artifact with that id as it was selected, by the model or by a fallback."""
        ended = self.finished
        chosen = (*ended.selected, *ended.people, *ended.artifacts) if ended else ()
        return next((each for each in chosen if each.id == id), None)


def _first(events: Iterable[kinds.Event], kind: type[_Kind]) -> _Kind | None:
    return next((event for event in events if isinstance(event, kind)), None)


def read_in(events: Iterable[kinds.Event]) -> set[str]:
    """The ids of the topics that a model read in a run."""
    return {topic.id for event in events if isinstance(event, kinds.TopicsRead) for topic in event.read}


def answered_from(events: Sequence[kinds.Event]) -> frozenset[str]:
    """The ids of the topics whose passages an answering strategy read, used or not; also of some that no search showed,
    because passages are found by themselves."""
    if not any(isinstance(event, Answered) for event in events):
        return frozenset()
    read = {id for event in events if isinstance(event, ToolUsed) for id in event.topics}
    ends = [event for event in events if isinstance(event, kinds.RunFinished)]
    return frozenset(read.union(*((*end.dropped, *(each.id for each in end.selected)) for end in ends)))


def with_read(found: kinds.CandidatesFound, read: frozenset[str]) -> kinds.CandidatesFound:
    """The same candidates, of which those that were ``read`` count as shown."""
    if not any(each.id in read and not each.shown for each in found.candidates):
        return found
    return replace(
        found, candidates=tuple(replace(each, shown=each.shown or each.id in read) for each in found.candidates)
    )


def summarise(events: Iterable[kinds.Event]) -> Totals:
    """Totals of a run's events; the seconds are those that the events report."""
    spent, turns, tool_calls, seconds = Usage(), 0, 0, 0.0
    for event in events:
        if isinstance(event, kinds.QueryEnriched | kinds.ModelReplied):
            spent += event.usage
        if isinstance(event, kinds.ModelReplied):
            turns += 1
            tool_calls += len(event.tool_calls)
        if isinstance(event, kinds.QueryEnriched | kinds.ModelReplied | kinds.CandidatesFound):
            seconds += event.seconds
    return Totals(spent.input_tokens, spent.output_tokens, spent.cost_usd, seconds, turns, tool_calls)


# Stored events as programs receive them: in today's form, with remarks as English sentences.


def to_wire(kind: str, payload: str) -> str:
    """The JSON text of a stored payload, converted to the format for programs."""
    if kind == kinds.CandidatesFound.kind:
        return _in_words(kinds.upgraded(json.loads(payload)))
    # Programs get the remarks of these events as sentences too, in a field beside their codes.
    has_words = kind in kinds.KINDS and {"note", "notes"} <= {each.name for each in fields(kinds.KINDS[kind])}
    return _in_words(json.loads(payload)) if '"notes"' in payload and has_words else payload


def _in_words(stored: Mapping[str, Any]) -> str:
    """Replaces the codes of notes by sentences; remarks that were stored as words stay as they are."""
    sentences = english([Note(**note) for note in stored.get("notes", ())])
    return to_text({**stored, "note": sentences or stored.get("note", "")})
