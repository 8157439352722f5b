"""The strategy *plain*: one search, and one question to the chat model, which gets no tools. Where no model is
connected, or it gives no answer in time, the answer is the passages nearest to the question. It uses the tools of
*react* without its steps, so it stands in for it where that is switched off or its searches are late."""

from dataclasses import dataclass, replace
from typing import Any

from memoryapp.engine.chat.protocol import Reply
from memoryapp.engine.context import cited_text
from memoryapp.engine.conversation import TurnLimits
from memoryapp.engine.emit import Emit, unheard
from memoryapp.engine.events import QueryEnriched, RunFinished
from memoryapp.engine.notes import Notes
from memoryapp.engine.parameters import Parameters, number
from memoryapp.engine.prompts.prompt import language_of
from memoryapp.engine.strategies.react import toolbox
from memoryapp.engine.strategies.react.answering import ANSWER, Draft, conclusion, conversation, model_draft, verified
from memoryapp.engine.strategies.react.composing import Composing
from memoryapp.engine.strategies.react.searching import Searching
from memoryapp.engine.strategies.react.statements import Statement
from memoryapp.engine.strategies.react.verifying import Verifying
from memoryapp.engine.strategies.strategy import Ports, Strategy, StrategyRequest


@dataclass(frozen=True, slots=True)
class PlainParameters(Parameters):
    """``hits`` passages are found and put together within ``context_tokens``, as for *react*."""

    hits: int = number(10, 1, 50, also="k_per_query")
    context_tokens: int = number(1_800, 200, 8_000)
    least_coverage: float = number(0.5, 0.0, 1.0)

    @property
    def of_agent(self) -> toolbox.ReactParameters:
        """The same parameters for the tools of *react*, with defaults for all others."""
        return toolbox.ReactParameters(**self.as_dict())


async def recall(request: StrategyRequest[PlainParameters], ports: Ports, emit: Emit) -> RunFinished:
    """Emits the query as it was typed, its candidates, the model's turn and the answer; returns the topics that it
    cites. Raises SearchTimeout."""
    prepared = await ports.search(QueryEnriched(request.query, request.query, note="not_wanted", seconds=0.0))
    emit(prepared.line)
    request = request.read_as(prepared.line)
    return await answered_at_once(request, Searching(request.query, prepared, ports, request.parameters.of_agent), emit)


async def answered_at_once(
    request: StrategyRequest[Any], searching: Searching, emit: Emit, notes: Notes = ()
) -> RunFinished:
    """Searches once within the seconds of the run, and asks its model once. Raises SearchTimeout."""
    parameters, composing = searching.parameters, Composing(request.query, searching.pool)
    await searching.search(toolbox.SearchInput(queries=(request.query,), k=parameters.hits), unheard)
    found = searching.pool.event(parameters.candidates)
    emit(found)
    if ids := tuple(searching.pool.order):
        await searching.fetch(toolbox.FetchInput(ids=ids), unheard)
        await composing.compose(toolbox.ComposeInput(ids=ids, max_tokens_ctx=parameters.context_tokens), unheard)
    draft = await _written(request, searching, composing, emit)
    candidates = {candidate.id: candidate for candidate in found.candidates}
    answer, end = conclusion(request, searching, composing, draft, candidates, notes)
    emit(answer)
    return end


async def _written(
    request: StrategyRequest[Any], searching: Searching, composing: Composing, emit: Emit
) -> Draft | None:
    """What the model answers, without what its sources do not bear out; None when it gives no answer."""
    ports, parameters = searching.ports, searching.parameters
    if not (ports.writer and composing.sources):
        return None
    limits = TurnLimits(ports.deadline.left, parameters.turn_seconds, empty_replies=1)
    reply = await conversation(request, composing, ports.writer, limits).turn(emit)
    if not (isinstance(reply, Reply) and reply.text.strip()):
        return None
    verifying = Verifying(composing, request.prompts, language_of(request.query), ports.deadline, most_seconds=0.0)

    async def verify(statement: Statement) -> toolbox.VerifyOutput | None:
        asked = verifying.question(statement, parameters.claim_evidence)
        return await verifying.verify(asked, unheard)

    draft = replace(model_draft(reply.text, composing.sources), cut=reply.is_at_limit)
    return await verified(draft, parameters.claims, verify)


STRATEGY = Strategy("plain", recall, PlainParameters, prompts=(ANSWER,), answers=True, passages=cited_text)
