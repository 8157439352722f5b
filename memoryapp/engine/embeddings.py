"""Embedders turn texts into unit vectors; a profile describes the model that makes them. There are two embedders:
``embedding.http_embedder`` for any OpenAI-compatible endpoint, and the embedded one in ``offline``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.notes import Note, NotedError

Vectors = NDArray[np.float32]

IDENTITY = ("provider", "model", "dimensions", "query_prefix", "passage_prefix")
# gemini-embedding-001 reads 2,048 tokens; other models refuse longer texts instead of cutting them.
_MOST_CHARS = 6_000


@dataclass(frozen=True, slots=True)
class Profile:
    """Provider, model and dimensions of vectors. A topic whose cosine is below ``threshold`` is no candidate; two short
    texts whose cosine is at least ``related`` are related. ``usual_best`` is the mean cosine of the best passage for
    questions that a memory answers, 0 if unknown. Of a text longer than ``most_chars`` characters only the beginning is
    embedded.

    Some models expect a word before each text that says what it is (e5, nomic, bge). Vectors made with other prefixes
    cannot be compared, so ``query_prefix`` and ``passage_prefix`` belong to the identity of a profile.

    Thresholds belong to the model, because cosines of different models cannot be compared (measured: USE has a mean of
    .36 for relevant texts; e5 has .85, and .77 for unrelated pairs)."""

    provider: str
    model: str
    dimensions: int
    threshold: float
    related: float = 0.0
    usual_best: float = 0.0
    most_chars: int = _MOST_CHARS
    query_prefix: str = ""
    passage_prefix: str = ""

    @property
    def name(self) -> str:
        return profile_name(**self.identity)

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes a profile from all others, by the names of the columns."""
        return {name: getattr(self, name) for name in IDENTITY}

    def as_queries(self, texts: Sequence[str]) -> list[str]:
        """The texts as the model expects what is searched for."""
        return [self.query_prefix + text for text in texts]

    def as_passages(self, texts: Sequence[str]) -> list[str]:
        """The texts as the model expects what is searched in."""
        return [self.passage_prefix + text for text in texts]


def profile_name(provider: str, model: str, dimensions: int, query_prefix: str = "", passage_prefix: str = "") -> str:
    prefixes = f" ({query_prefix}…, {passage_prefix}…)" if query_prefix or passage_prefix else ""
    return f"{provider}/{model}@{dimensions}{prefixes}"


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
