"""Embedders turn texts into unit vectors; a profile describes the model that makes them.

There are two embedders: ``http_embedder`` for any OpenAI-compatible endpoint, and the embedded one in ``offline``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.notes import Note, NotedError

Vectors = NDArray[np.float32]

# gemini-embedding-001 reads 2,048 tokens; other models refuse longer texts instead of cutting them.
_MOST_CHARS = 6_000


@dataclass(frozen=True, slots=True)
class Profile:
    """Provider, model and dimensions of vectors. A topic whose cosine is below ``threshold`` is no candidate; two short
    texts whose cosine is at least ``related`` are related. ``usual_best`` is the mean cosine of the best passage for
    questions that a memory answers, 0 if unknown. Of a text longer than ``most_chars`` characters only the beginning is
    embedded.

    Thresholds belong to the model, because cosines of different models cannot be compared (measured: USE has a mean of
    .36 for relevant texts; e5 has .85, and .77 for unrelated pairs).
    """

    provider: str
    model: str
    dimensions: int
    threshold: float
    related: float = 0.0
    usual_best: float = 0.0
    most_chars: int = _MOST_CHARS

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}@{self.dimensions}"


class EmbeddingError(NotedError):
    """No vectors could be made."""


class Embedder(Protocol):
    """Makes vectors of one profile."""

    profile: Profile

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions), unit length, in order. Raises EmbeddingError."""
        ...


@dataclass(slots=True)
class UnreachableEmbedder:
    """The embedder of a profile whose endpoint is no longer in the settings. It makes no vectors."""

    profile: Profile

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Raises EmbeddingError."""
        named = {"profile": self.profile.name, "provider": self.profile.provider}
        raise EmbeddingError(Note("embedder_unnamed", named))


def unit(vectors: Vectors) -> Vectors:
    """The rows of ``vectors`` scaled to length 1. Raises ValueError for a row without a direction."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or np.any(lengths == 0):
        raise ValueError("it has no direction")
    scaled: Vectors = vectors / lengths
    return scaled
