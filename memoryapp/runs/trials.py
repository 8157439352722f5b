"""Trials: a past run tried again with another prompt; which prompts can be tried, and what the new run replays.

Everything before the changed prompt is replayed, so any difference comes from that prompt. Another prompt of the
reranker gets the same query and the same candidates. Another prompt of the enricher gets the same conversation; its
rewritten query is searched for, and the reranker chooses with the prompt in force and the same background of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from memoryapp.engine.candidates import BASELINE
from memoryapp.engine.events import CandidatesFound, Event
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompts import BUILT_IN, VARIABLES
from memoryapp.prompt_versions import Key
from memoryapp.runs.recall.request import Replayed

# The variables of a rerank prompt that describe the user, whatever the search found.
_OF_WHO_ASKS = (*VARIABLES["enrich"], "inner_circle")
# The prompts that can be replaced in a trial.
_TRIED = ("rerank", "enrich")


@dataclass(frozen=True, slots=True)
class UsedPrompt:
    """A prompt that a past run sent to a model, with the variables that filled it.

    ``messages`` are the rendered texts by role; empty when the run did not store them.
    """

    key: Key
    version: int
    variables: Mapping[str, str]
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``rerank-en-3``."""
        return "{}-{}-{}".format(*self.key, self.version)


def prompts_used(events: Sequence[Event]) -> dict[str, UsedPrompt]:
    """The prompts, by name, that can be replaced in a trial of the run with these events.

    Empty while the run goes on. A prompt is left out when its variables are unknown: the model was not asked, or the
    run is older than the versions of prompts.
    """
    outline = Outline.of(events)
    if outline.finished is None:
        return {}
    query, turn = outline.enriched, outline.turn
    used = []
    if turn and outline.found:
        messages = {message.role: message.content for message in turn.prompt}
        used.append(_used(turn.prompt_version, turn.variables, messages))
    if query:
        used.append(_used(query.prompt_version, query.variables, {}))
    return {each.key[0]: each for each in used if each}


def _used(label: str, variables: Mapping[str, str], messages: Mapping[str, str]) -> UsedPrompt | None:
    """None for a label that names no built-in prompt, and when the variables are not known."""
    name, _dash, rest = label.partition("-")
    language, _dash, version = rest.partition("-")
    if name not in _TRIED or (name, language) not in BUILT_IN or not version.isdecimal() or not variables:
        return None
    return UsedPrompt((name, language), int(version), variables, messages)


def replay(events: Sequence[Event], tried: str) -> Replayed:
    """What a run that tries the prompt of this name takes from the run with these events."""
    outline = Outline.of(events)
    return _before_the_line(outline) if tried == "enrich" else _before_the_choice(outline)


def _before_the_line(outline: Outline) -> Replayed:
    query, turn = outline.enriched, outline.turn
    known = {**(query.variables if query else {}), **(turn.variables if turn else {})}
    return Replayed(
        enrich_variables=query.variables if query else {},
        rerank_variables={name: known[name] for name in _OF_WHO_ASKS if name in known},
    )


def _before_the_choice(outline: Outline) -> Replayed:
    """Nothing for a run whose search did not finish. The costs stay with that run."""
    query, found, turn, ended = outline.enriched, outline.found, outline.turn, outline.finished
    if query is None or found is None:
        return Replayed()
    return Replayed(
        query=replace(query, seconds=0.0, input_tokens=0, output_tokens=0, cost_usd=0.0),
        found=replace(found, seconds=0.0),
        baseline=(ended.baseline if ended else ()) or _by_vector(found),
        rerank_variables=turn.variables if turn else {},
    )


def _by_vector(found: CandidatesFound) -> tuple[str, ...]:
    order = sorted((candidate.vector_rank or candidate.rank, candidate.id) for candidate in found.ranked())
    return tuple(id for _, id in order)[:BASELINE]
