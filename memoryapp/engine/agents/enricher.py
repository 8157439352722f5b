"""The query as search should see it: one line, made from the running conversation.

The rule is not to guess. A word the model does not know stays as it was typed ("мениск" must never become
"MinIO"), nothing is added that the user did not mean, and when the model fails the raw query is used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import date
from types import MappingProxyType

from memoryapp.engine.agents.ask import Ask
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.events import ModelReplied, QueryEnriched, Retried, SteppedDown
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
) -> AsyncGenerator[Retried | SteppedDown | QueryEnriched, None]:
    """What happens on the way, and at last the enriched query: the raw one with a ``note`` when there is no model
    or it fails in ``seconds``. A line that says nothing is not asked for again, for the query is there to search with.

    ``variables`` are those of a run that is tried again: they stand as they were, whatever has changed since.
    Raises KeyError or ValueError for a prompt that ``prompts.faults`` would have named.
    """
    if chat is None:
        yield QueryEnriched(query, query, note="no_model", seconds=0.0)
        return
    filled = enrich_variables(
        query, messages=messages, profile=profile, recent_topics=recent_topics, media=media, today=today
    )
    filled |= variables
    text = prompts["enrich", language_of(query)]
    ask = Ask(chat, text, filled, read=_line, seconds=seconds, media=media, tries=1)
    async with aclosing(ask.turns()) as events:
        async for event in events:
            if isinstance(event, Retried | SteppedDown):
                yield event
    yield _enriched(query, ask, filled)


def _enriched(query: str, ask: Ask[str], variables: Mapping[str, str]) -> QueryEnriched:
    """The conversation in one event, as a run stores it."""
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
    )


def _note(ask: Ask[str]) -> str:
    """Empty where there is a line; else ``failed``, with what the endpoint or the model said behind a colon."""
    if ask.answer is not None:
        return ""
    words = one_line(ask.failure.words)[:LONGEST] if ask.failure else ""
    return f"failed: {words}" if words else "failed"


def _line(text: str) -> str | None:
    return one_line(text)[:LONGEST] or None
