"""How a rerank ends: with a selection, with nothing relevant, or with a fallback that replaces the model's choice.

All fallbacks follow one rule: the topics that the model asked to read, or else the nearest by vector. Two outcomes stay
empty, because nothing that the model wanted can be used. People and artifacts are never added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memoryapp.engine.candidates import BASELINE, Candidate
from memoryapp.engine.events import CandidatesFound, RunFinished, Selected
from memoryapp.engine.notes import Note, Notes
from memoryapp.engine.prompts.rerank import RerankRequest

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
# How many topics are handed over as possibly related.
_UNSURE = 3
_EMPTY: frozenset[Fallback] = frozenset({"all_hallucinated", "no_candidates"})


@dataclass(frozen=True, slots=True)
class Trail:
    """What the model did before the end: candidates it asked for, ids that are no candidates, topics it read."""

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
    """The model's own selection; an empty one is respected."""
    notes = () if topics or people or artifacts else (Note("nothing_relevant"),)
    return replace(_finished(request, topics, trail, "", notes), people=tuple(people), artifacts=tuple(artifacts))


def nearest(found: CandidatesFound, *, newest_first: bool = False) -> tuple[Selected, ...]:
    """The topics that the search shows first, of equal scores the newest, in place of a choice of which the embedded
    scorer is not sure; for a question about the present ``newest_first``."""
    shown = sorted((each for each in found.shown if each.passage_id), key=lambda each: each.date, reverse=True)
    best = sorted(shown, key=lambda each: -round(each.score, 2))[:_UNSURE]
    if newest_first:
        best.sort(key=lambda each: each.date, reverse=True)
    return tuple(_selected([each.id for each in best], best, ()))


def fall_back(request: RerankRequest, fallback: Fallback, most: int, trail: Trail | None = None) -> RunFinished:
    """At most ``most`` topics in place of a selection that did not come."""
    trail = trail or Trail()
    # When no topic was near enough to be shown, the nearest would be noise.
    nearest = request.baseline if request.candidates else ()
    ids = () if fallback in _EMPTY else (trail.requested or nearest)[:most]
    instead = "nothing" if not ids else "requested" if trail.requested else "nearest"
    return _finished(request, _stand_ins(request, ids), trail, fallback, (Note(fallback, {"instead": instead}),))


def interrupted(found: CandidatesFound, requested: Sequence[str], fallback: str, most: int) -> RunFinished:
    """At most ``most`` topics in place of the selection of a run that ended from outside, by the same rule."""
    ranked = found.candidates
    order = sorted(ranked, key=lambda each: (each.vector_rank or each.rank, each.rank))
    baseline = tuple(each.id for each in order[:BASELINE])
    nearest = baseline if any(each.shown for each in ranked) else ()
    ids = (tuple(requested) or nearest)[:most]
    instead = "nothing" if not ids else "requested" if requested else "nearest"
    return RunFinished(
        selected=tuple(_selected(ids, ranked, baseline)),
        dropped=(),
        fallback=fallback,
        notes=(Note("interrupted_run", {"instead": instead}),),
        requested=tuple(requested),
        baseline=baseline,
    )


def _stand_ins(request: RerankRequest, ids: Sequence[str]) -> list[Selected]:
    return _selected(ids, request.candidates, request.baseline)


def _selected(ids: Sequence[str], candidates: Sequence[Candidate], baseline: Sequence[str]) -> list[Selected]:
    scores = {candidate.id: candidate.score for candidate in candidates}
    vector_ranks = {id: rank for rank, id in enumerate(baseline, start=1)}
    vector_ranks |= {candidate.id: candidate.vector_rank for candidate in candidates}
    return [
        Selected(id=id, rank=rank, reason="", score=scores.get(id, 0.0), vector_rank=vector_ranks[id])
        for rank, id in enumerate(ids, start=1)
    ]


def _finished(
    request: RerankRequest, selected: Sequence[Selected], trail: Trail, fallback: str, notes: Notes
) -> RunFinished:
    ids = {topic.id for topic in selected}
    return RunFinished(
        selected=tuple(selected),
        dropped=tuple(id for id in trail.read if id not in ids),
        fallback=fallback,
        notes=notes,
        requested=trail.requested,
        hallucinated=trail.hallucinated,
        baseline=request.baseline,
    )
