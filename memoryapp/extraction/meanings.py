"""Texts compared by what they mean, each made a vector once in a pass; vectors are made outside of transactions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from asgiref.sync import async_to_sync
from django.conf import settings
from numpy.typing import NDArray

from memoryapp.engine.embeddings import Embedder

# From this cosine on two texts differ in no more than spelling.
SAME = 0.97


def folded(text: str) -> str:
    """The text's letters and digits alone, in lower case: what is equal then is the same in words."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold().replace("ё", "е")).split())


class Meanings:
    """``alike`` is the cosine from which two facts of one kind are one, ``related`` that of facts of which only one can
    be true."""

    def __init__(self, embedder: Embedder) -> None:
        self.alike: float = settings.FACT_SIMILARITY_THRESHOLD
        self.related = min(embedder.profile.related, self.alike)
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def lacks(self, texts: Iterable[str]) -> bool:
        return any(text not in self._vectors for text in texts)

    def learn(self, texts: Iterable[str]) -> None:
        """Makes the vectors that are missing. Raises EmbeddingError; not for a transaction."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            vectors = async_to_sync(self._embedder.embed)(missing)
            self._vectors.update(zip(missing, vectors, strict=True))

    def similarity(self, one: str, other: str) -> float:
        """1 for the same words, else the cosine of two texts that were learnt."""
        if folded(one) == folded(other):
            return 1.0
        return float(self._vectors[one] @ self._vectors[other])
