"""The strategy *filter*: the nearest topics by cosine, filtered in two stages by similarity alone; no model is asked.
Each stage reports what it removed, so that the numbers of a run add up. When nothing is left, the run says whether
nothing was similar enough, or everything that was found was filtered out."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from memoryapp.engine.context import chunks_text, passage_chunks_text
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, QueryEnriched, RunFinished, Selected
from memoryapp.engine.fusion import by_meaning
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.notes import Note
from memoryapp.engine.parameters import CONTEXTS, Parameters, choice, number
from memoryapp.engine.strategies.cuts import CALIBRATED, PRESETS, Cuts, FilteredItem, Filtering, apply_cuts
from memoryapp.engine.strategies.strategy import NEAREST, Found, Ports, Strategy, StrategyRequest

_BALANCED = PRESETS["balanced"]


@dataclass(frozen=True, slots=True)
class FilterParameters(Parameters):
    """The parameters of a filter; see ``Cuts``. Whole topics would bring back what it cuts off, so it hands over
    passages whatever the setting."""

    context: str = choice(CONTEXTS[0], CONTEXTS)

    initial_top_k: int = number(_BALANCED.initial_top_k, 3, 30)
    initial_threshold: float = number(_BALANCED.initial_threshold, 0.0, 0.9)
    threshold: float = number(_BALANCED.threshold, 0.1, 0.9)
    score_gap: float = number(_BALANCED.score_gap, 0.02, 0.5)
    final_top_k: int = number(_BALANCED.final_top_k, 1, 10)

    @property
    def cuts(self) -> Cuts:
        return Cuts(self.initial_top_k, self.initial_threshold, self.threshold, self.score_gap, self.final_top_k)


def similarities(found: CandidatesFound) -> dict[str, float]:
    """The cosine of each topic that was found, by id."""
    return {candidate.id: candidate.cosine for candidate in found.candidates}


async def recall(request: StrategyRequest[FilterParameters], ports: Ports, emit: Emit) -> RunFinished:
    """Emits the query as it was typed, its candidates by cosine, and what each stage removes; returns what is left."""
    search = await ports.search(QueryEnriched(request.query, request.query, note="not_wanted", seconds=0.0))
    emit(search.line)
    found = await search.find(fusion=by_meaning)
    emit(found.event)
    if found.event.by_words_alone:
        return RunFinished((), (), "no_vectors", notes=found.event.notes)
    filtering = apply_cuts(similarities(found.event), request.parameters.cuts)
    for stage in stages(filtering):
        emit(stage)
    return _finished(filtering, found)


def stages(filtering: Filtering) -> Iterator[Filtered]:
    """What each stage removed, in the order of the stages."""
    cuts, drop = filtering.cuts, filtering.drop or ()
    initial = filtering.of("below_initial", "beyond_initial")
    yield Filtered("initial", _ids(initial), filtering.initial, cuts.initial_threshold)
    below = filtering.of("below_threshold")
    yield Filtered("threshold", _ids(below), filtering.initial - len(below), cuts.threshold)
    after = filtering.of("after_gap")
    yield Filtered("gap", _ids(after), filtering.initial - len(below) - len(after), cuts.score_gap, drop)
    yield Filtered("top_k", _ids(filtering.of("beyond_top_k")), len(filtering.kept), cuts.final_top_k)


def _ids(items: tuple[FilteredItem, ...]) -> tuple[str, ...]:
    return tuple(item.id for item in items)


def _finished(filtering: Filtering, found: Found) -> RunFinished:
    vector_ranks = {candidate.id: candidate.vector_rank for candidate in found.event.candidates}
    selected = tuple(
        Selected(id=item.id, rank=item.rank, reason="", score=item.similarity, vector_rank=vector_ranks[item.id])
        for item in filtering.kept
    )
    return RunFinished(selected, (), "", baseline=found.baseline, notes=() if selected else (_nothing(filtering),))


def _nothing(filtering: Filtering) -> Note:
    """The reason why the assistant gets no context."""
    best = max((item.similarity for item in filtering.items), default=0.0)
    values = {"best": round(best, 2)}
    if not filtering.initial:
        return Note("none_similar", {**values, "threshold": filtering.cuts.initial_threshold})
    return Note("all_filtered", {**values, "found": filtering.initial, "threshold": filtering.cuts.threshold})


STRATEGY = Strategy(
    "filter",
    recall,
    FilterParameters,
    ranking=NEAREST,
    context=chunks_text,
    passages=passage_chunks_text,
    calibrated={profile: asdict(presets["balanced"]) for profile, presets in CALIBRATED.items()},
)
