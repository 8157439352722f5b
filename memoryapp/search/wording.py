"""A query in words and vectors: as it was typed, and as a model rewrote it where that has to do with the conversation.

The typed query is always searched, for a rewrite may have guessed wrong. One that shares neither words with the query
and the talk nor meaning with the query ("MinIO" for "мениск") would only bring noise: it is not used, and its run says
so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pgvector import HalfVector

from memoryapp.engine.embeddings import Embedder, EmbeddingError, Vectors, unit
from memoryapp.engine.events import QueryEnriched
from memoryapp.engine.notes import Note, Notes
from memoryapp.engine.text.lexical import stems
from memoryapp.engine.text.queries import matter_of
from memoryapp.search.similarity import Wording
from memoryapp.search.words import QUERY_CHARS


@dataclass(frozen=True, slots=True)
class Worded:
    """A query as search sees it: as it was typed, and beside it as ``line`` has it, where that says it otherwise.

    ``notes`` say why there are no vectors; ``seconds`` are those it took to have them.
    """

    line: QueryEnriched
    typed: Wording
    rewrite: Wording | None = None
    notes: Notes = ()
    seconds: float = 0.0


async def worded(
    line: QueryEnriched, talk: Sequence[str], embedder: Embedder, seconds: float, authors: Collection[str] = ()
) -> Worded:
    """The query of ``line`` in one wording or in both, with vectors where the embedder makes them in ``seconds``.

    ``talk`` are the texts of the running conversation, ``authors`` those who speak in the memory, whose names are no
    part of a vector. An unrelated rewrite is dropped from the line.
    """
    # These seconds are charged to the run, whose timeouts go by this clock.
    loop = asyncio.get_running_loop()
    began = loop.time()
    texts = [line.query] if line.enriched == line.query else [line.query, line.enriched]
    encoded = [matter_of(text, authors).texts for text in texts]
    vectors, notes = await _vectors(encoded, embedder, seconds)
    if len(texts) > 1 and not _is_related(line, talk, vectors, embedder.profile.related):
        line = replace(line, enriched=line.query, note=f"unrelated: {line.enriched}")
        texts = texts[:1]
    made = [None] * len(texts) if vectors is None else [HalfVector(vector) for vector in vectors[: len(texts)]]
    typed, *rewrite = (Wording(text, vector) for text, vector in zip(texts, made, strict=True))
    return Worded(line, typed, next(iter(rewrite), None), notes, round(loop.time() - began, 6))


async def _vectors(
    encoded: Sequence[Sequence[str]], embedder: Embedder, seconds: float
) -> tuple[Vectors | None, Notes]:
    """A unit vector for each group of texts, their sum, shape (groups, dimensions); or a note why there are none."""
    every = list(dict.fromkeys(text for texts in encoded for text in texts))
    try:
        async with asyncio.timeout(seconds):
            known = dict(zip(every, await embedder.embed(every), strict=True))
            return unit(np.stack([sum(known[text] for text in texts) for texts in encoded])), ()
    except EmbeddingError as error:
        return None, (Note("embedding_failed", {"words": str(error)}),)
    except TimeoutError:
        return None, (Note("no_vector_in_time", {"seconds": seconds}),)


def _is_related(line: QueryEnriched, talk: Sequence[str], vectors: Vectors | None, least: float) -> bool:
    """Whether the rewrite shares words with query or conversation, or meaning with the query.

    It is believed where there are no vectors to tell.
    """
    known = {stem for text in (line.query, *talk) for stem in stems(text[:QUERY_CHARS])}
    return vectors is None or not known.isdisjoint(stems(line.enriched)) or float(vectors[0] @ vectors[1]) >= least
