"""The strategy *vector*: the nearest topics by cosine, without a model. It is the baseline that every run is compared
with."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memoryapp.engine.candidates import BASELINE
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import QueryEnriched, RunFinished, Selected
from memoryapp.engine.fusion import by_meaning
from memoryapp.engine.parameters import Parameters, number
from memoryapp.engine.strategies.strategy import NEAREST, Found, Ports, Strategy, StrategyRequest

# As many replace a strategy whose model is switched off.
TOPICS = 5


@dataclass(frozen=True, slots=True)
class VectorParameters(Parameters):
    """At most ``max_topics`` are selected."""

    max_topics: int = number(TOPICS, 1, BASELINE)


async def recall(request: StrategyRequest[VectorParameters], ports: Ports, emit: Emit) -> RunFinished:
    """Emits the query as it was typed, and its candidates by cosine; returns the nearest of them, scored by cosine."""
    search = await ports.search(QueryEnriched(request.query, request.query, note="not_wanted", seconds=0.0))
    emit(search.line)
    found = await search.find(fusion=by_meaning)
    emit(found.event)
    by_words = found.event.by_words_alone
    scores = {each.id: each.score if by_words else each.cosine for each in found.event.candidates}
    return _nearest(found, request.parameters.max_topics, scores, "no_vectors" if by_words else "")


async def without_model(request: StrategyRequest[Parameters], ports: Ports, emit: Emit) -> RunFinished:
    """In place of a strategy whose model is switched off: emits the query as it was typed, and the candidates of that
    strategy; returns the nearest of them."""
    search = await ports.search(QueryEnriched(request.query, request.query, note="disabled", seconds=0.0))
    emit(search.line)
    found = await search.find()
    emit(found.event)
    return _nearest(found, TOPICS, {each.id: each.score for each in found.event.candidates}, "disabled")


def _nearest(found: Found, most: int, scores: Mapping[str, float], fallback: str) -> RunFinished:
    """The first topics by cosine; without a vector of the query, the first by words."""
    event = found.event
    selected = [
        Selected(id=id, rank=rank, reason="", score=scores.get(id, 0.0), vector_rank=rank)
        for rank, id in enumerate(found.baseline[:most], start=1)
    ]
    if event.by_words_alone:
        selected = [replace(topic, vector_rank=0) for topic in selected]
    return RunFinished(
        selected=tuple(selected), dropped=(), fallback=fallback, baseline=found.baseline, notes=event.notes
    )


STRATEGY = Strategy("vector", recall, VectorParameters, ranking=NEAREST)
WITHOUT_MODEL = Strategy("vector", without_model, Parameters, ranking=NEAREST)
