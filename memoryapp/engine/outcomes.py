"""How a rerank ends: chosen, nothing relevant, or a fallback that stands in for the model's choice.

One rule for every fallback: the topics the model asked to read, else the nearest by vector. Two outcomes
stay empty, for nothing the model wanted can stand in. People and artifacts are never added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.prompts import RerankRequest

Fallback = Literal[
    "all_hallucinated",
    "protocol_violation",
    "parse_error",
    "timeout",
    "turn_timeout",
    "max_tool_calls",
    "llm_error",
    "empty_response",
    "refused",
    "content_filter",
    "disabled",
    "no_candidates",
]
_CAUSES: Mapping[Fallback, str] = {
    "all_hallucinated": "The model named only ids that are no candidates",
    "protocol_violation": "The model answered without reading any topic",
    "parse_error": "The model's answer could not be read",
    "timeout": "The time for the whole run was over",
    "turn_timeout": "The model took too long for one turn",
    "max_tool_calls": "The model kept calling tools instead of answering",
    "llm_error": "The chat model failed",
    "empty_response": "The model twice said nothing",
    "refused": "The model refused to answer",
    "content_filter": "The endpoint's content filter stopped the answer",
    "disabled": "The reranker is switched off",
    "no_candidates": "Search found no candidates",
}
_EMPTY: frozenset[Fallback] = frozenset({"all_hallucinated", "no_candidates"})
_NOTHING_RELEVANT = "The model found nothing relevant among the candidates."


@dataclass(frozen=True, slots=True)
class Trail:
    """What the model did before the end: candidates it asked for, ids that are none, topics it read."""

    requested: tuple[str, ...] = ()
    hallucinated: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


def chosen(
    request: RerankRequest,
    topics: Sequence[Selected],
    trail: Trail,
    *,
    people: Sequence[Selected] = (),
    artifacts: Sequence[Selected] = (),
) -> RunFinished:
    """The model's own choice; an empty one is respected."""
    note = "" if topics or people or artifacts else _NOTHING_RELEVANT
    return replace(_finished(request, topics, trail, "", note), people=tuple(people), artifacts=tuple(artifacts))


def fall_back(request: RerankRequest, fallback: Fallback, most: int, trail: Trail | None = None) -> RunFinished:
    """At most ``most`` stand-ins for a choice that did not come."""
    trail = trail or Trail()
    # Where no topic came near enough to be shown, the nearest of all would be noise.
    nearest = request.baseline if request.candidates else ()
    ids = () if fallback in _EMPTY else (trail.requested or nearest)[:most]
    if not ids:
        instead = "nothing was chosen"
    elif trail.requested:
        instead = "the first topics it asked for stand in"
    else:
        instead = "the nearest topics by vector stand in"
    return _finished(request, _stand_ins(request, ids), trail, fallback, f"{_CAUSES[fallback]}; {instead}.")


def _stand_ins(request: RerankRequest, ids: Sequence[str]) -> list[Selected]:
    scores = {candidate.id: candidate.score for candidate in request.candidates}
    vector_ranks = {id: rank for rank, id in enumerate(request.baseline, start=1)}
    vector_ranks |= {candidate.id: candidate.vector_rank for candidate in request.candidates}
    return [
        Selected(id=id, rank=rank, reason="", score=scores.get(id, 0.0), vector_rank=vector_ranks[id])
        for rank, id in enumerate(ids, start=1)
    ]


def _finished(
    request: RerankRequest, selected: Sequence[Selected], trail: Trail, fallback: str, note: str
) -> RunFinished:
    ids = {topic.id for topic in selected}
    return RunFinished(
        selected=tuple(selected),
        dropped=tuple(id for id in trail.read if id not in ids),
        fallback=fallback,
        note=note,
        requested=trail.requested,
        hallucinated=trail.hallucinated,
        baseline=request.baseline,
    )
