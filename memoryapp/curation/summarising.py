"""Summaries that nobody wrote: by default the first words of the messages, or their most telling sentences.

Those need vectors, so plan with ``extractive`` outside of transactions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text import summaries as extracts
from memoryapp.engine.text.scripts import beginning
from memoryapp.engine.text.titles import plain

OPENING_CHARS = 90
_MARKS = re.compile(r"[|*`#>]|-{3,}")

Summarise = Callable[[Sequence[MessageContent]], str]


def opening(messages: Sequence[MessageContent]) -> str:
    """The first words that the user says in the messages, without markup; if the user says nothing, of anybody."""
    by_user = sorted(messages, key=lambda message: message.role != "user")
    text = next((words for message in by_user if (words := _unmarked(message.text))), "")
    if len(text) <= OPENING_CHARS:
        return text or "…"
    return beginning(text, OPENING_CHARS) + "…"


def _unmarked(text: str) -> str:
    """Returns the text without the marks of tables, headings, emphasis and code."""
    return plain(_MARKS.sub(" ", text))


def extractive(embedder: Embedder) -> Summarise:
    """Summaries of the most telling sentences; without vectors, of the first words. Do not call them in an
    event loop."""

    return async_to_sync(extracted(embedder))


def extracted(embedder: Embedder, words: Callable[[], extracts.StemFrequencies] | None = None) -> extracts.Summarise:
    """``extractive`` for an event loop. ``words`` are those of the memory, read when they are needed first."""

    async def telling(messages: Sequence[MessageContent]) -> str:
        try:
            return await extracts.summary(messages, embedder, await sync_to_async(words)() if words else None)
        except EmbeddingError:
            return opening(messages)

    return telling
