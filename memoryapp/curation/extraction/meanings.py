"""Compares texts by meaning. Each text is embedded once in a pass, and never inside a transaction."""

from collections.abc import Iterable

import numpy as np
from asgiref.sync import async_to_sync
from django.conf import settings
from numpy.typing import NDArray

from memoryapp.engine.embeddings import Embedder

# Texts with at least this cosine differ only in spelling.
SAME_MEANING = 0.97


def folded(text: str) -> str:
    """Returns only the text's letters and digits, in lower case, for comparing texts word by word."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold().replace("ё", "е")).split())


class Meanings:
    """The vectors of the texts of one pass.

    ``alike`` is the least cosine with which one fact replaces another; ``related`` is the lower limit for a relation of
    which only one fact can be true.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.alike: float = settings.FACT_SIMILARITY_THRESHOLD
        self.related = min(embedder.profile.related, self.alike)
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def lacks(self, texts: Iterable[str]) -> bool:
        return any(text not in self._vectors for text in texts)

    def learn(self, texts: Iterable[str]) -> None:
        """Embeds the texts that have no vector yet; must not be called in a transaction. Raises EmbeddingError."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            vectors = async_to_sync(self._embedder.embed)(missing)
            self._vectors.update(zip(missing, vectors, strict=True))

    def similarity(self, one: str, other: str) -> float:
        """Returns 1 for the same words, otherwise the cosine of the texts, which must have vectors."""
        if folded(one) == folded(other):
            return 1.0
        return float(self._vectors[one] @ self._vectors[other])
