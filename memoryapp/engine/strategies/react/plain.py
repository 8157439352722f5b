"""The strategy *plain*: one search, then sentences quoted from its passages.

It asks no model and uses the tools of *react* without its steps, so it works when both are switched off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import Event, ModelProgress, QueryEnriched
from memoryapp.engine.notes import Note
from memoryapp.engine.parameters import Parameters, number
from memoryapp.engine.prompts import language_of, topic_number
from memoryapp.engine.strategies.ports import Ports, StrategyRequest
from memoryapp.engine.strategies.react.answering import Draft, answer_event, end_event, extractive_draft
from memoryapp.engine.strategies.react.composing import Composing
from memoryapp.engine.strategies.react.parameters import ReactParameters
from memoryapp.engine.strategies.react.searching import Searching
from memoryapp.engine.strategies.react.shapes import ComposeInput, FetchInput, SearchInput
from memoryapp.engine.strategies.strategy import Strategy

# As many topics are judged as by *react* without a model.
_MOST_TOPICS = 12


@dataclass(frozen=True, slots=True)
class PlainParameters(Parameters):
    """``hits`` passages are found and put together within ``context_tokens``, as for *react*.

    An answer is refused when its passages cover less than ``least_coverage`` of the question.
    """

    hits: int = number(10, 1, 50)
    context_tokens: int = number(1_800, 200, 8_000)
    least_coverage: float = number(0.5, 0.0, 1.0)

    @property
    def of_agent(self) -> ReactParameters:
        """The same parameters for the tools of *react*, with defaults for all others."""
        return ReactParameters(hits=self.hits, context_tokens=self.context_tokens, least_coverage=self.least_coverage)


async def recall(request: StrategyRequest[PlainParameters], ports: Ports) -> AsyncIterator[Event]:
    """The events: the query as it was typed, its candidates, the answer, and the topics that it cites. Raises
    SearchTimeout."""
    language, parameters = language_of(request.query), request.parameters.of_agent
    prepared = await ports.search(QueryEnriched(request.query, request.query, note="not_wanted", seconds=0.0))
    yield prepared.line
    searching = Searching(request.query, prepared, ports, parameters)
    composing = Composing(request.query, searching.pool)
    await searching.search(SearchInput(queries=(request.query,), k=parameters.hits), _unheard)
    found = searching.pool.event(parameters.candidates)
    yield found
    await _put_together(searching, composing, parameters.context_tokens)
    candidates = {candidate.id: candidate for candidate in found.ranked()}
    draft = await _extract(composing, candidates, ports)
    coverage = composing.coverage(draft.statements.sources.values())
    answer = answer_event(draft, coverage, None, parameters, language)
    yield answer
    yield end_event(answer, draft, candidates, searching.pool.baseline)


def _unheard(event: Event | ModelProgress) -> None:
    """Tools that ask no model report nothing meanwhile."""


async def _put_together(searching: Searching, composing: Composing, tokens: int) -> None:
    """Numbers the passages found as sources."""
    ids = tuple(searching.pool.order)
    if ids:
        await searching.fetch(FetchInput(ids=ids), _unheard)
        await composing.compose(ComposeInput(ids=ids, max_tokens_ctx=tokens), _unheard)


async def _extract(composing: Composing, candidates: Mapping[str, Candidate], ports: Ports) -> Draft:
    """The most telling sentences of the topics that probably contain an answer."""
    wanted = list(dict.fromkeys(document.topic for document in composing.sources.values()))[:_MOST_TOPICS]
    topics = await ports.read_topics([topic_number(id) for id in wanted]) if wanted else ()
    why = Note("extracts_only")
    return extractive_draft(
        composing.question_terms, composing.sources, topics, candidates, language_of(composing.question), why
    )


STRATEGY = Strategy("plain", recall, PlainParameters, answers=True)
