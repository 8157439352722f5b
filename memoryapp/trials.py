"""A run of the past tried again with another prompt: which prompts can be tried on it, and what the new run replays.

What came before the prompt in question is taken as it was, so whatever differs comes from that prompt. Another text
for the reranker meets the same line and the same candidates. Another text for the enricher meets the same question;
the line it writes is searched for, and the reranker chooses by the text in force, told the same of who asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memoryapp.engine.events import CandidatesFound, Event, QueryEnriched, RunFinished, TurnStarted
from memoryapp.engine.prompts import BUILT_IN, VARIABLES
from memoryapp.prompting import Key
from memoryapp.retrieval import BASELINE

# What a reranker is told of who asks, whatever search found.
_OF_WHO_ASKS = (*VARIABLES["enrich"], "inner_circle")

_Kind = TypeVar("_Kind", QueryEnriched, CandidatesFound, TurnStarted, RunFinished)


@dataclass(frozen=True, slots=True)
class Told:
    """A prompt as a model was told it in a run of the past, with everything it was filled with.

    ``messages`` are what came of it, by role; empty where the run did not keep them.
    """

    key: Key
    version: int
    variables: Mapping[str, str]
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``rerank-en-3``."""
        return "{}-{}-{}".format(*self.key, self.version)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a run takes from the one it tries again. What is None or empty is made anew.

    ``baseline`` is the plain vector order of ``found``; the variables are told as they were, whatever has changed.
    """

    query: QueryEnriched | None = None
    found: CandidatesFound | None = None
    baseline: tuple[str, ...] = ()
    enrich_variables: Mapping[str, str] = field(default_factory=dict)
    rerank_variables: Mapping[str, str] = field(default_factory=dict)


def told_by(events: Sequence[Event]) -> dict[str, Told]:
    """The prompts, by name, in whose place another one can be tried on the run with these events.

    None while it goes on. A model that was not asked, and a run from before prompts had versions, kept no variables.
    """
    if not events or not isinstance(events[-1], RunFinished):
        return {}
    query, turn = _first(events, QueryEnriched), _first(events, TurnStarted)
    told = []
    if turn and _first(events, CandidatesFound):
        messages = {message.role: message.content for message in turn.prompt}
        told.append(_told(turn.prompt_version, turn.variables, messages))
    if query:
        told.append(_told(query.prompt_version, query.variables, {}))
    return {each.key[0]: each for each in told if each}


def _told(label: str, variables: Mapping[str, str], messages: Mapping[str, str]) -> Told | None:
    """None for a label that names no prompt of ours, and where nothing is known of what filled it."""
    name, _dash, rest = label.partition("-")
    language, _dash, version = rest.partition("-")
    if (name, language) not in BUILT_IN or not version.isdecimal() or not variables:
        return None
    return Told((name, language), int(version), variables, messages)


def replayed(events: Sequence[Event], tried: str) -> Replayed:
    """What a run that tries the prompt of this name takes from the one with these events."""
    return _before_the_line(events) if tried == "enrich" else _before_the_choice(events)


def _before_the_line(events: Sequence[Event]) -> Replayed:
    query, turn = _first(events, QueryEnriched), _first(events, TurnStarted)
    told = {**(query.variables if query else {}), **(turn.variables if turn else {})}
    return Replayed(
        enrich_variables=query.variables if query else {},
        rerank_variables={name: told[name] for name in _OF_WHO_ASKS if name in told},
    )


def _before_the_choice(events: Sequence[Event]) -> Replayed:
    """Nothing of a run whose search had not come to an end. What it cost is on its own account."""
    query, found = _first(events, QueryEnriched), _first(events, CandidatesFound)
    if query is None or found is None:
        return Replayed()
    turn, ended = _first(events, TurnStarted), _first(events, RunFinished)
    return Replayed(
        query=replace(query, seconds=0.0, input_tokens=0, output_tokens=0, cost_usd=0.0),
        found=replace(found, seconds=0.0),
        baseline=(ended.baseline if ended else ()) or _by_vector(found),
        rerank_variables=turn.variables if turn else {},
    )


def _by_vector(found: CandidatesFound) -> tuple[str, ...]:
    order = sorted((candidate.vector_rank or candidate.rank, candidate.id) for candidate in found.ranked())
    return tuple(id for _, id in order)[:BASELINE]


def _first(events: Sequence[Event], kind: type[_Kind]) -> _Kind | None:
    return next((event for event in events if isinstance(event, kind)), None)
