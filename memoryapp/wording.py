"""A query in words and vectors: as it was typed, and as a model rewrote it where that has to do with what was said.

The typed query is always searched, for a rewrite may have guessed wrong. One that shares neither words with the query
and the talk nor meaning with the query ("MinIO" for "мениск") would only bring noise: it is not used, and its run says
so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgvector import HalfVector

from memoryapp.engine.embeddings import Embedder, EmbeddingError, Vectors
from memoryapp.engine.events import QueryEnriched
from memoryapp.engine.lexical import stems
from memoryapp.signals import QUERY_CHARS, Wording


@dataclass(frozen=True, slots=True)
class Worded:
    """A query as search sees it: as it was typed, and beside it as ``line`` has it, where that says it otherwise.

    ``note`` says why there are no vectors; ``seconds`` are those it took to have them.
    """

    line: QueryEnriched
    typed: Wording
    rewrite: Wording | None = None
    note: str = ""
    seconds: float = 0.0


async def worded(line: QueryEnriched, talk: Sequence[str], embedder: Embedder, seconds: float) -> Worded:
    """The query of ``line`` in one wording or in both, with vectors where the embedder makes them in ``seconds``.

    ``talk`` are the texts of the running conversation. An unrelated rewrite is dropped from the line.
    """
    began = time.perf_counter()
    texts = [line.query] if line.enriched == line.query else [line.query, line.enriched]
    vectors, note = await _vectors(texts, embedder, seconds)
    if len(texts) > 1 and not _is_related(line, talk, vectors, embedder.profile.related):
        line = replace(line, enriched=line.query, note=f"unrelated: {line.enriched}")
        texts = texts[:1]
    made = [None] * len(texts) if vectors is None else [HalfVector(vector) for vector in vectors[: len(texts)]]
    typed, *rewrite = (Wording(text, vector) for text, vector in zip(texts, made, strict=True))
    return Worded(line, typed, next(iter(rewrite), None), note, round(time.perf_counter() - began, 6))


async def _vectors(texts: Sequence[str], embedder: Embedder, seconds: float) -> tuple[Vectors | None, str]:
    """Shape (texts, dimensions), or a sentence why there are none."""
    try:
        async with asyncio.timeout(seconds):
            return await embedder.embed(texts), ""
    except EmbeddingError as error:
        return None, str(error)
    except TimeoutError:
        return None, f"The embedding model gave no vector within {seconds:.3g} s."


def _is_related(line: QueryEnriched, talk: Sequence[str], vectors: Vectors | None, least: float) -> bool:
    """Whether the rewrite shares words with what was said, or meaning with the query; what is unknown is believed."""
    said = {stem for text in (line.query, *talk) for stem in stems(text[:QUERY_CHARS])}
    return vectors is None or not said.isdisjoint(stems(line.enriched)) or float(vectors[0] @ vectors[1]) >= least
