"""The enricher: an agent that rewrites the query for search, as one line, from the running conversation.

It must not guess. A word that the model does not know stays as it was typed ("мениск" must never become "MinIO"), and
nothing is added that the user did not mean. When the model fails, the raw query is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType

from memoryapp.engine.agents.ask import Ask
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.emit import Emit, unheard
from memoryapp.engine.events import Event, ModelProgress, ModelReplied, QueryEnriched, Retried, SteppedDown
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts import BUILT_IN, PromptBook, enrich_variables, language_of
from memoryapp.engine.text.lines import one_line

LONGEST = 500


async def enrich(
    query: str,
    *,
    chat: Chat | None,
    messages: Sequence[MessageContent],
    profile: str,
    today: date,
    seconds: float,
    recent_topics: Sequence[str] = (),
    media: Sequence[MediaContent] = (),
    prompts: PromptBook = BUILT_IN,
    variables: Mapping[str, str] = MappingProxyType({}),
    emit: Emit = unheard,
) -> QueryEnriched:
    """The enriched query: the raw one, with a ``note``, when there is no model or when the model fails within
    ``seconds``. An empty answer is not asked for again, because the raw query can be searched. Retries and abilities
    that the endpoint lacks are emitted; all else about the call is in the returned event.

    ``variables`` replace those of the prompt: a run that is tried again sends the same ones, whatever has changed.
    Raises KeyError or ValueError for a prompt that ``prompts.faults`` would have rejected.
    """
    if chat is None:
        return QueryEnriched(query, query, note="no_model", seconds=0.0)
    filled = enrich_variables(
        query, messages=messages, profile=profile, recent_topics=recent_topics, media=media, today=today
    )
    filled |= variables
    text = prompts["enrich", language_of(query)]
    ask = Ask(chat, text, filled, read=_line, seconds=seconds, media=media, tries=1)

    def heard(event: Event | ModelProgress) -> None:
        if isinstance(event, Retried | SteppedDown):
            emit(event)

    return _enriched(query, await ask.complete(heard), filled)


def _enriched(query: str, ask: Ask[str], variables: Mapping[str, str]) -> QueryEnriched:
    """The call as one event of the run."""
    replied = [event for event in ask.events if isinstance(event, ModelReplied)]
    return QueryEnriched(
        query=query,
        enriched=ask.answer or query,
        note=_note(ask),
        seconds=round(ask.spent_seconds, 6),
        input_tokens=ask.usage.input_tokens,
        output_tokens=ask.usage.output_tokens,
        cost_usd=ask.usage.cost_usd,
        model=replied[-1].model if replied else ask.model,
        prompt_version=ask.prompt.label,
        variables=variables,
        cause=ask.failure.cause if ask.failure else "",
        status=ask.failure.status if ask.failure else 0,
    )


def _note(ask: Ask[str]) -> str:
    """Empty when there is an answer; else ``failed``, followed by a colon and the words of the endpoint or the model,
    if any."""
    if ask.answer is not None:
        return ""
    words = one_line(ask.failure.words)[:LONGEST] if ask.failure else ""
    return f"failed: {words}" if words else "failed"


def _line(text: str) -> str | None:
    return one_line(text)[:LONGEST] or None
