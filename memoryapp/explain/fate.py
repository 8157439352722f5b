"""What became of a candidate in a run, read from its events: the first stage that lost it, with the numbers there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import CandidatesFound, ModelReplied, RunFinished
from memoryapp.engine.kinds.react import Answered
from memoryapp.engine.text.lines import quoted
from memoryapp.explain.story import CHOSEN, SHOWN, Story, kind_of

# From the first stage to the last; each is a stage code of the interface for programs.
Stage = Literal[
    "unknown",
    "erased",
    "in_session",
    "not_searched",
    "no_vector",
    "filtered",
    "below_threshold",
    "beyond_candidates",
    "cut",
    "not_requested",
    "did_not_fit",
    "not_chosen",
    "beyond_limit",
    "not_in_context",
    "not_used",
    "chosen",
]
STAGES: tuple[str, ...] = get_args(Stage)
# So much of a message tells it from others in a prompt.
_TELLING_CHARS = 60


@dataclass(frozen=True, slots=True)
class Fate:
    """The ``stage`` that lost the candidate ``id``, and the number of its event (0: none). ``case`` tells apart reasons
    within a stage; ``numbers`` are those that decided."""

    stage: str
    id: str = ""
    case: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0


def fate(story: Story, id: str, *, threshold: float, texts: Callable[[], Sequence[str]]) -> Fate | None:
    """None for a topic that is not among the ranked ones. ``threshold`` is the cosine below which nothing counts as
    near; ``texts`` returns the texts of the topic's messages."""
    found, finished = story.found, story.finished
    if found is None or finished is None:
        return Fate("not_searched", id, finished.fallback if finished else "", seq=story.seq(RunFinished))
    if (selected := story.outline.selected(id)) is not None:
        numbers = {"place": selected.rank, "of": len(finished.selected), "fallback": finished.fallback}
        case = "pinned" if selected.pinned and not selected.vector_rank else finished.fallback and "instead"
        return Fate("chosen", id, case, numbers, story.seq(RunFinished))
    if id in story.cut:
        return _cut(story, id)
    candidate = story.candidate(id) or story.read_unranked(id)
    if candidate is None:
        return None
    is_read = candidate.shown or id in story.answered_from
    if not is_read and not (story.chooses_nearest and _is_near(story, candidate)):
        return _unshown(story, found, candidate, threshold)
    if finished.fallback == "no_vectors" and not finished.selected:
        return Fate("no_vector", id, "query", _numbers(candidate), story.seq(CandidatesFound))
    return _unchosen(story, candidate, texts)


def _numbers(candidate: Candidate | ItemCandidate, **more: Any) -> dict[str, Any]:
    if not candidate.rank:
        return more
    return {
        "rank": candidate.rank,
        "vector_rank": candidate.vector_rank,
        "cosine": candidate.cosine,
        "score": candidate.score,
        **more,
    }


def _is_near(story: Story, candidate: Candidate | ItemCandidate) -> bool:
    """Whether the order by cosine, which alone decides, has it among as many as are shown."""
    return 0 < candidate.vector_rank <= int(story.parameters["candidates"])


def _cut(story: Story, id: str) -> Fate:
    event, seq = story.cut[id]
    candidate = story.candidate(id)
    similarity = candidate.cosine if candidate else 0.0
    case: str = event.stage
    if case == "initial" and round(similarity, 6) >= round(event.bound, 6):
        case = "initial_top_k"
    bound = story.parameters.get("initial_top_k", 0) if case == "initial_top_k" else event.bound
    numbers = {"cut": case, "cosine": similarity, "bound": bound, "kept": event.kept, "rank": _vector_rank(candidate)}
    if event.drop:
        numbers |= {"before": event.drop[0], "after": event.drop[1]}
    return Fate("cut", id, case, numbers, seq)


def _vector_rank(candidate: Candidate | ItemCandidate | None) -> int:
    return candidate.vector_rank if candidate else 0


def _unshown(story: Story, found: CandidatesFound, candidate: Candidate | ItemCandidate, threshold: float) -> Fate:
    """Why a ranked candidate was not shown."""
    id, seq = candidate.id, story.seq(CandidatesFound)
    if id in found.copies:
        return _copy(story, found.copies[id], id)
    shown = story.shown(id)
    limit = int(story.parameters[SHOWN[kind_of(id)]])
    numbers = _numbers(candidate, shown=len(shown), threshold=threshold)
    speaks = candidate.bm25 > 0 or "summary" in candidate.parts
    if not speaks and found.by_words_alone:
        return Fate("no_vector", id, "query", numbers, seq)
    if not speaks and candidate.cosine == 0.0 and found.without_vector:
        return Fate("no_vector", id, "passages", numbers, seq)
    last = max((each.rank for each in shown), default=0)
    is_irrelevant = len(shown) < limit or candidate.rank < last or (not speaks and candidate.cosine < threshold)
    return Fate("below_threshold" if is_irrelevant else "beyond_candidates", id, "", numbers, seq)


def _copy(story: Story, original: str, id: str) -> Fate:
    """The fate of the topic that says the same and was shown in its place."""
    known = fate(story, original, threshold=0.0, texts=tuple)
    return Fate(known.stage, original, known.case, {**known.numbers, "copy": id}, known.seq) if known else Fate("", id)


def _unchosen(story: Story, candidate: Candidate | ItemCandidate, texts: Callable[[], Sequence[str]]) -> Fate:
    """Why a candidate that was shown was not selected."""
    if story.answers and kind_of(candidate.id) == "Topic":
        return _unanswered(story, candidate, texts)
    finished = story.finished
    if finished is None or story.chooses_nearest or finished.fallback == "disabled":
        return _beyond(story, candidate, _vector_rank(candidate), _limit(story, candidate.id))
    if not story.outline.replies or story.answers:
        numbers = _numbers(candidate, fallback=finished.fallback)
        return Fate("not_requested", candidate.id, finished.fallback and "fallback", numbers, story.seq(RunFinished))
    return _unpicked(story, candidate, finished)


def _limit(story: Story, id: str) -> int:
    finished = story.finished
    chosen = len(finished.selected) if finished else 0
    return int(story.parameters.get(CHOSEN[kind_of(id)], chosen)) if story.chooses_nearest else chosen


def _beyond(story: Story, candidate: Candidate | ItemCandidate, place: int, limit: int, case: str = "order") -> Fate:
    numbers = _numbers(candidate, place=place, limit=limit)
    return Fate("beyond_limit", candidate.id, case, numbers, story.seq(RunFinished))


def _unpicked(story: Story, candidate: Candidate | ItemCandidate, finished: RunFinished) -> Fate:
    """Why a model that was asked did not select it."""
    id, fallback = candidate.id, finished.fallback
    numbers = _numbers(candidate, fallback=fallback)
    same_kind = [pick for pick in story.picks if kind_of(pick) == kind_of(id) and story.candidate(pick)]
    if id in same_kind:
        limit = int(story.parameters.get(CHOSEN[kind_of(id)], 0))
        return _beyond(story, candidate, same_kind.index(id) + 1, limit, "picked")
    if kind_of(id) != "Topic":
        # People and files are described in full, so a model has read all that it is shown.
        return Fate("not_chosen", id, "fallback" if fallback else "item", numbers, story.seq(ModelReplied))
    if id in story.read:
        return Fate("not_chosen", id, fallback and "fallback", numbers, story.seq(ModelReplied))
    if id in story.omitted:
        topic, seq = story.omitted[id]
        sizes = {"size_chars": topic.size_chars, "read_chars": int(story.parameters.get("read_chars", 0))}
        return Fate("did_not_fit", id, "size", {**numbers, **sizes}, seq)
    if id in story.requested:
        if fallback and finished.selected:
            return _beyond(story, candidate, len(finished.selected) + 1, len(finished.selected), "stand_ins")
        return Fate("did_not_fit", id, "late", numbers, story.seq(ModelReplied))
    replied = story.seq(ModelReplied)
    return Fate("not_requested", id, fallback and "fallback", numbers, replied)


def _unanswered(story: Story, candidate: Candidate | ItemCandidate, texts: Callable[[], Sequence[str]]) -> Fate:
    """Why an answer does not cite it."""
    id, answer = candidate.id, story.answer
    numbers = _numbers(candidate, hits=int(story.parameters.get("hits", 0)))
    if id in story.composed or _is_in(story.answer_prompt, texts):
        if answer is not None and answer.outcome == "passages":
            return _beyond(story, candidate, 0, len(answer.citations), "passages")
        case = "refused" if answer and answer.outcome == "refused" else ""
        return Fate("not_used", id, case, numbers, story.seq(Answered))
    if id in story.answered_from:
        sizes = {"context_tokens": int(story.parameters.get("context_tokens", 0))}
        return Fate("did_not_fit", id, "context", {**numbers, **sizes}, story.seq(Answered))
    return Fate("not_requested", id, "hits", numbers, story.seq(CandidatesFound))


def _is_in(prompt: str, texts: Callable[[], Sequence[str]]) -> bool:
    return bool(prompt) and any(text.strip() and quoted(text)[:_TELLING_CHARS] in prompt for text in texts())
