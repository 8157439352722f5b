"""Scores: meaning, words and lifts of each text added up, in numpy; the formula is in the room's docstring.

A dozen cards are too few to tell which words are rare, so cards are scored together with the passages, and their scores
mean the same as those of topics. Passages are scored without the cards, so a topic's score does not depend on which
people are known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.fusion import Fusion, Sum, TopicPassages, fuse, shown_scores
from memoryapp.engine.text.lexical import Floats, Matches, Weighed, bm25
from memoryapp.search.columns import Ids, Positions
from memoryapp.search.summaries import SummaryWords
from memoryapp.search.words import joined

_DIGITS = 6
_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class MatchedTexts:
    """Passages or cards before they are scored, by id: how near each of the n texts is, and how often it contains each
    word of the query.

    ``items`` names the owner of each card: a person's number, or an artifact's number as a negative; it is 0 for
    passages. The ``cosine`` of a text without a vector is NaN. ``common`` are words for which only some ``matches`` are
    known, with the estimated number of texts that contain each.
    """

    ids: Ids
    items: Ids
    lengths: Floats
    wide: NDArray[np.bool_]
    cosine: Floats
    matches: Mapping[str, Matches | None]
    common: Mapping[str, int] = field(default_factory=dict)

    def followed_by(self, others: MatchedTexts) -> MatchedTexts:
        """Both as one; the others come last."""
        first = len(self.ids)
        return MatchedTexts(
            ids=np.concatenate((self.ids, others.ids)),
            items=np.concatenate((self.items, others.items)),
            lengths=np.concatenate((self.lengths, others.lengths)),
            wide=np.concatenate((self.wide, others.wide)),
            cosine=np.concatenate((self.cosine, others.cosine)),
            matches={word: joined(found, others.matches.get(word), first) for word, found in self.matches.items()},
            common=self.common,
        )


@dataclass(frozen=True, slots=True)
class CandidateNumbers:
    """The numbers of n candidates, as columns. ``cosine`` is 0 when it is unknown. ``terms`` is what each word adds to
    ``bm25``, ``parts`` what each part of the score adds to ``fused``."""

    cosine: list[float]
    bm25: list[float]
    fused: list[float]
    score: list[float]
    terms: list[Mapping[str, float]]
    parts: list[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """The scores of n passages or cards for a query, in the order of ``ids``; all arrays have shape (n,).

    ``parts`` is what each part of the score adds, by the names of ``candidates.PARTS``; if ``is_sum``, ``fused`` is
    their sum. ``items`` and ``cosine`` are as in ``MatchedTexts``.

    With two wordings, each text has the numbers of the wording that fits it better, but the larger of both cosines;
    ``by_wording`` is ``fused`` by each wording alone, empty for a query with one wording.
    """

    ids: Ids
    items: Ids
    cosine: Floats
    words: Weighed
    fused: Floats
    by_wording: tuple[Floats, ...] = ()
    parts: Mapping[str, Floats] = field(default_factory=dict)
    is_sum: bool = False

    def topic_lifts(self, topics: TopicPassages, summaries: SummaryWords) -> Mapping[str, Floats]:
        """What the rest of each topic adds to the score of its best passage, by part, shape (topics,) each.

        The parts are the meaning of all its passages and the words of its summary; none when scores are not sums.
        """
        if not self.is_sum:
            return {}
        summary = summaries.beyond(topics.topics, topics.highest(self.parts["words"]))
        return {"topic": topics.lifts(self.parts["meaning"]), "summary": summary}

    def relevant(self, threshold: float) -> NDArray[np.bool_]:
        """Which texts share a word with the query or have at least the cosine ``threshold``, shape (n,)."""
        near: NDArray[np.bool_] = (self.words.total > 0) | (self.cosine >= threshold)
        return near

    def numbers(self, at: Positions, lifts: Mapping[str, Floats] = MappingProxyType({})) -> CandidateNumbers:
        """The numbers of candidates for the texts at these positions, with the ``lifts`` of topics in their scores;
        shape (positions,)."""
        fused = sum(lifts.values(), self.fused[at])
        parts = {**{name: adds[at] for name, adds in self.parts.items()}, **lifts}
        return CandidateNumbers(
            cosine=_rounded(np.nan_to_num(self.cosine[at])),
            bm25=_rounded(self.words.total[at]),
            fused=_rounded(fused),
            score=_rounded(shown_scores(fused)),
            terms=_added({term: adds[at] for term, adds in self.words.terms.items()}, len(at)),
            parts=_added(parts, len(at)),
        )


def _added(columns: Mapping[str, Floats], n: int) -> list[Mapping[str, float]]:
    """What the columns add to each of the ``n`` texts, by name; columns that add nothing are left out."""
    rows: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for name, adds in columns.items():
        added = np.round(adds, _DIGITS)
        holding = np.flatnonzero(added)
        for place, number in zip(holding.tolist(), added[holding].tolist(), strict=True):
            rows[place][name] = number
    return [rows.get(place, _NOTHING) for place in range(n)]


def _rounded(column: Floats) -> list[float]:
    digits: list[float] = np.round(column, _DIGITS).tolist()
    return digits


def scored(
    texts: MatchedTexts, wide: bool, fusion: Fusion = fuse, lifted: Mapping[str, Floats] = MappingProxyType({})
) -> ScoredTexts:
    """Meaning, words and lifts added up; ``wide`` says whether the query is written mostly in non-Latin letters.

    Lifts are counted in standard deviations, so they are added only to a sum of deviations; another ``fusion`` ranks
    without them.
    """
    words = bm25(texts.matches, texts.lengths, texts.common)
    foreign = texts.wide != wide
    added = fusion if isinstance(fusion, Sum) else None
    meaning, shared = (added or fuse).weighed(texts.cosine, words, foreign)
    parts = {"meaning": meaning, "words": shared, **(lifted if added else {})}
    fused = sum(parts.values(), np.zeros(len(texts.ids))) if added else fusion(texts.cosine, words, foreign)
    return ScoredTexts(texts.ids, texts.items, texts.cosine, words, fused, parts=parts, is_sum=added is not None)


def scored_among(others: MatchedTexts, texts: MatchedTexts, wide: bool, fusion: Fusion) -> ScoredTexts:
    """The scores of ``texts`` as if they were among ``others``; those are left out of the result."""
    if not len(texts.ids):
        return scored(texts, wide, fusion)
    n = len(others.ids)
    every = scored(others.followed_by(texts), wide, fusion)
    words = Weighed(every.words.total[n:], {t: adds[n:] for t, adds in every.words.terms.items()}, every.words.weight)
    parts = {part: adds[n:] for part, adds in every.parts.items()}
    return ScoredTexts(texts.ids, texts.items, texts.cosine, words, every.fused[n:], parts=parts)


def better(typed: ScoredTexts, rewrite: ScoredTexts | None = None) -> ScoredTexts:
    """The same texts, each with the numbers of the wording that fits it better."""
    if rewrite is None:
        return typed
    rewritten, nothing = rewrite.fused > typed.fused, np.zeros(len(typed.ids))

    def of_either(one: Mapping[str, Floats], other: Mapping[str, Floats]) -> dict[str, Floats]:
        names = {**one, **other}
        return {name: np.where(rewritten, other.get(name, nothing), one.get(name, nothing)) for name in names}

    words = Weighed(
        total=np.where(rewritten, rewrite.words.total, typed.words.total),
        terms=of_either(typed.words.terms, rewrite.words.terms),
        weight=max(typed.words.weight, rewrite.words.weight),
        rarity={**typed.words.rarity, **rewrite.words.rarity},
    )
    return ScoredTexts(
        ids=typed.ids,
        items=typed.items,
        cosine=np.fmax(typed.cosine, rewrite.cosine),
        words=words,
        fused=np.where(rewritten, rewrite.fused, typed.fused),
        by_wording=(typed.fused, rewrite.fused),
        parts=of_either(typed.parts, rewrite.parts),
        is_sum=typed.is_sum,
    )
