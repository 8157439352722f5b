"""The query as search should see it: one line, made from the running conversation.

The rule is not to guess. A word the model does not know stays as it was typed ("мениск" must never become
"MinIO"), nothing is added that the user did not mean, and when the model fails the raw query is used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import date
from types import MappingProxyType
from typing import Any, cast

from memoryapp.engine.budget import Budget
from memoryapp.engine.events import QueryEnriched, Retried, SteppedDown
from memoryapp.engine.lines import one_line
from memoryapp.engine.llm import Chat, ChatRequest, LLMError, Progress, Reply, Usage
from memoryapp.engine.media import Media, names_media, with_media
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts import BUILT_IN, PromptBook, enrich_variables, language_of, rendered

LONGEST = 500

_Step = Retried | SteppedDown | Reply | LLMError


async def enrich(
    query: str,
    *,
    chat: Chat | None,
    messages: Sequence[MessageContent],
    profile: str,
    today: date,
    seconds: float,
    recent_topics: Sequence[str] = (),
    media: Sequence[Media] = (),
    prompts: PromptBook = BUILT_IN,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> AsyncGenerator[Retried | SteppedDown | QueryEnriched, None]:
    """What happens on the way, and at last the enriched query: the raw one with a ``note`` when there is no model
    or it fails in ``seconds``.

    ``variables`` are those of a run that is tried again: they are told as they were, whatever has changed since.
    Raises KeyError or ValueError for a prompt that ``prompts.faults`` would have named.
    """
    if chat is None:
        yield QueryEnriched(query, query, note="no_model", seconds=0.0)
        return
    text, budget = prompts["enrich", language_of(query)], Budget(seconds)
    filled = enrich_variables(
        query, messages=messages, profile=profile, recent_topics=recent_topics, media=media, today=today
    )
    told = {**filled, **variables}
    raw = QueryEnriched(query, query, note="", seconds=0.0, model=chat.model, prompt_version=text.label, variables=told)
    heard: Reply | LLMError = LLMError("The enricher gave no answer.")
    async with aclosing(_asked(chat, rendered(text, told), media, budget)) as steps:
        async for step in steps:
            if isinstance(step, Retried | SteppedDown):
                yield step
            else:
                heard = step
    written = _failed(raw, heard) if isinstance(heard, LLMError) else _written(raw, heard)
    yield replace(written, seconds=round(budget.spent, 6))


def _written(raw: QueryEnriched, reply: Reply) -> QueryEnriched:
    line = "" if reply.declined else one_line(reply.text)[:LONGEST]
    words = one_line(reply.refusal or reply.text)[:LONGEST] if reply.declined else ""
    return replace(
        raw,
        enriched=line or raw.query,
        note="" if line else f"failed: {words}" if words else "failed",
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cost_usd=reply.cost_usd,
        model=reply.model or raw.model,
    )


def _failed(raw: QueryEnriched, error: LLMError) -> QueryEnriched:
    spent = error.spent
    return replace(
        raw,
        note=f"failed: {error}" if str(error) else "failed",
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_usd,
    )


async def _asked(
    chat: Chat, conversation: Sequence[Mapping[str, Any]], media: Sequence[Media], budget: Budget
) -> AsyncGenerator[_Step, None]:
    """What the model says; to the text alone when the endpoint cannot take the media."""
    system, user = conversation
    refusal: LLMError | None = None
    async with aclosing(_heard(chat, [system, with_media(user, media)], budget)) as steps:
        async for step in steps:
            if isinstance(step, LLMError) and media and names_media(str(step)):
                refusal = step
            else:
                yield step
    if refusal is None:
        return
    yield SteppedDown("media", "the text alone", str(refusal))
    async with aclosing(_heard(chat, conversation, budget)) as steps:
        async for step in steps:
            yield _with_spent(step, refusal.spent)


def _with_spent(step: _Step, spent: Usage) -> _Step:
    """An end of the conversation that also counts what was ``spent`` before."""
    if isinstance(step, LLMError):
        return LLMError(str(step), spent=step.spent + spent)
    if isinstance(step, Retried | SteppedDown):
        return step
    return replace(
        step,
        input_tokens=step.input_tokens + spent.input_tokens,
        output_tokens=step.output_tokens + spent.output_tokens,
        cost_usd=step.cost_usd + spent.cost_usd,
    )


async def _heard(chat: Chat, conversation: Sequence[Mapping[str, Any]], budget: Budget) -> AsyncGenerator[_Step, None]:
    """What the chat yields but its progress, an error as the last of it."""
    said = cast("AsyncGenerator[_Step | Progress, None]", chat.converse(ChatRequest(conversation, seconds=budget.left)))
    async with aclosing(said):
        while True:
            try:
                async with budget.spending():
                    step = await anext(said, None)
            except LLMError as error:
                yield error
                return
            except TimeoutError:
                yield LLMError("")
                return
            if step is None:
                return
            if not isinstance(step, Progress):
                yield step
            if isinstance(step, Reply):
                return
