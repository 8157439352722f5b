"""Wordings of a query and their vectors: as it was typed, and as a model rewrote it if that fits the conversation.

The vectors are stored with the run: the preview of an edit uses them, so that it needs no model.

The typed query is always searched, because a rewrite may be wrong. A rewrite is not used, and the run says so, when it
shares no word with the query or the conversation and is not near the query in meaning, or when it guesses: a word of
the query gave way to one that nobody said ("MinIO" for "мениск")."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
from pgvector import HalfVector
from psycopg_pool import AsyncConnectionPool

from memoryapp.engine.agents.enricher import guesses
from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Embedder, EmbeddingError, Vectors, unit
from memoryapp.engine.events import RESPELLED, QueryEnriched
from memoryapp.engine.notes import Note, Notes
from memoryapp.engine.text.lexical import stems
from memoryapp.engine.text.terms import matter_of
from memoryapp.platform.database import SqlStatement
from memoryapp.search.similarity import Question, Wording
from memoryapp.search.words import QUERY_CHARS

_SQL = table_beside(__file__)
STORE: str = _SQL["store"]
COPY: str = _SQL["copy"]


@dataclass(frozen=True, slots=True)
class Worded:
    """A query for the search: as it was typed, and as ``line`` has it if that differs. ``notes`` say why there are no
    vectors; ``seconds`` is how long making them took."""

    line: QueryEnriched
    typed: Wording
    rewrite: Wording | None = None
    notes: Notes = ()
    seconds: float = 0.0


async def word_query(
    line: QueryEnriched, talk: Sequence[str], embedder: Embedder, seconds: float, authors: Collection[str] = ()
) -> Worded:
    """The query of ``line`` in one or both wordings, with vectors if the embedder makes them within ``seconds``.
    ``talk`` are the texts of the running conversation. ``authors`` are the people who speak in the memory; their names
    are left out of the vectors. A rewrite that does not fit is removed from the line."""
    # The run's deadline uses this clock.
    loop = asyncio.get_running_loop()
    began = loop.time()
    texts = [line.query] if line.enriched == line.query else [line.query, line.enriched]
    if line.note == RESPELLED:
        texts = [line.enriched]
    encoded = [matter_of(text, authors).texts for text in texts]
    vectors, notes = await _vectors(encoded, embedder, seconds)
    if len(texts) > 1 and (fault := _fault(line, talk, authors, vectors, embedder.profile.related)):
        line = replace(line, enriched=line.query, note=f"{fault}: {line.enriched}")
        texts = texts[:1]
    made = [None] * len(texts) if vectors is None else [HalfVector(vector) for vector in vectors[: len(texts)]]
    typed, *rewrite = (Wording(text, vector) for text, vector in zip(texts, made, strict=True))
    return Worded(line, typed, next(iter(rewrite), None), notes, round(loop.time() - began, 6))


async def _vectors(
    encoded: Sequence[Sequence[str]], embedder: Embedder, seconds: float
) -> tuple[Vectors | None, Notes]:
    """A unit vector for each group of texts, the sum of their vectors, shape (groups, dimensions); or a note why there
    are none."""
    every = list(dict.fromkeys(text for texts in encoded for text in texts))
    try:
        async with asyncio.timeout(seconds):
            known = dict(zip(every, await embedder.embed(embedder.profile.as_queries(every)), strict=True))
            return unit(np.stack([sum(known[text] for text in texts) for texts in encoded])), ()
    except EmbeddingError as error:
        return None, (error.note or Note("embedding_failed", {"words": str(error)}),)
    except TimeoutError:
        return None, (Note("no_vector_in_time", {"seconds": seconds}),)


def _fault(
    line: QueryEnriched, talk: Sequence[str], authors: Collection[str], vectors: Vectors | None, least: float
) -> str:
    """Why the rewrite is not used, as the code of a note; empty when it is."""
    if not _is_related(line, talk, vectors, least):
        return "unrelated"
    # What the enricher was shown, except other topics: a word of theirs is as much of a guess as any.
    shown = (line.variables.get(name, "") for name in ("profile", "messages"))
    texts = (*(text[:QUERY_CHARS] for text in (*talk, *authors)), *shown)
    return "guessed" if guesses(line.query, line.enriched, texts) else ""


def _is_related(line: QueryEnriched, talk: Sequence[str], vectors: Vectors | None, least: float) -> bool:
    """Whether the rewrite shares a word with the query or the conversation, or is near the query in meaning. Without
    vectors it is accepted."""
    known = {stem for text in (line.query, *talk) for stem in stems(text[:QUERY_CHARS])}
    return vectors is None or not known.isdisjoint(stems(line.enriched)) or float(vectors[0] @ vectors[1]) >= least


def storing_statements(run_id: UUID | None, asked: Question) -> list[SqlStatement]:
    """The statement that stores the vectors of a question; none without a vector, or when the question belongs to no
    run."""
    *typed, last = (wording.vector for wording in asked.wordings)
    if last is None or run_id is None:
        return []
    values = {"run": run_id, "owner": asked.owner_id, "profile": asked.profile_id, "vector": last}
    return [(STORE, {**values, "typed_vector": typed[0] if typed else None})]


async def copy_vectors(pool: AsyncConnectionPool, owner_id: int, *, source: str, target: UUID) -> None:
    """Gives the run ``target`` the vectors of the run ``source``."""
    async with pool.connection() as connection:
        await connection.execute(COPY, [target, owner_id, source])
