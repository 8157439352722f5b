"""Scores: meaning, words and lifts of each text added up, in numpy; the formula is in the room's docstring.

A dozen cards are too few to tell which words are rare, so cards are scored together with the passages, and their scores
mean the same as those of topics. Passages are scored without the cards, so a topic's score does not depend on which
people are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.beside import table_beside
from memoryapp.engine.candidates import NamedDates, OneTerm, UnderstoodQuery
from memoryapp.engine.fusion import LEXICAL_FLOOR, Fusion, Sum, TopicPassages, fuse, shown_scores, z_scores
from memoryapp.engine.memory import ANYWHERE, Where
from memoryapp.engine.text.dates import closeness, windows
from memoryapp.engine.text.lexical import Floats, Matches, Weighed, bm25, other_forms, rarities
from memoryapp.engine.text.terms import INSTRUCTION, asks_to_make, matter_of
from memoryapp.platform.database import SqlRead
from memoryapp.search.columns import Ids, Positions, int64s, positions
from memoryapp.search.words import joined, one_term_each

# Lifts: what raises or lowers the score of passages beside meaning and words: their time, their author, and standing
# instructions.
#
# Passages from a time that the query names rise, those after it less and less. In a chat with an assistant a reply
# without the request it answers sinks, because replies repeat words at length. A standing instruction of the user
# rises when the query asks the assistant to make something. A phrase that somebody asked for raises what contains it.
#
# Lifts are counted in standard deviations, as meaning and words are. Tried and left out: adding the BM25 of the
# user's words for each topic, which would need an index of words by author. On public long chats with an assistant,
# whose questions were known by then, a weight of .8 raised recall@5/@10 from .554/.675 to .592/.696, together with
# lower replies. On the forty questions of the demo memory, also chats with an assistant, a weight of 0, .4, .8 and
# 1.2 gave recall@5 .852, .852, .860, .869, recall@10 .946, .919, .919, .927 and MRR .791, .829, .830, .831: the first
# results improve, and answers at low ranks are lost.

DATES = 4.0
REPLY_ALONE = -1.0
INSTRUCTED = 4.0
# Of each phrase that somebody would like to see.
PHRASE = 4.0

_EPOCH = date(1970, 1, 1)
_DAY_SECONDS = 86_400

_SQL = table_beside(__file__)
INSTRUCTIONS: str = _SQL["instructions"]


@dataclass(frozen=True, slots=True)
class PassageOrigins:
    """The time and the author of each of n passages, shape (n,). ``days`` counts from 1970-01-01; it is NaN for a
    passage that is in no topic and no session. ``replies`` marks passages that contain only the assistant's words.
    ``authors`` are all who speak in the memory."""

    days: Floats
    replies: NDArray[np.bool_]
    authors: tuple[str, ...] = ()
    has_assistant: bool = False

    @classmethod
    def of(
        cls, n: int, places: Positions, seconds: Floats, by_assistant: NDArray[np.bool_], authors: Sequence[str] = ()
    ) -> PassageOrigins:
        """Built from one row for each message of a passage: the passage's position among the n, the time of the
        message, and whether the assistant wrote it."""
        days = np.full(n, np.inf)
        np.minimum.at(days, places, seconds / _DAY_SECONDS)
        replies = np.isfinite(days)
        replies[places[~by_assistant]] = False
        days[np.isinf(days)] = np.nan
        return cls(days, replies, tuple(sorted(authors)), bool(by_assistant.any()))

    @property
    def today(self) -> date:
        """The day of the last message; dates without a year are resolved from it."""
        known = self.days[~np.isnan(self.days)]
        return _EPOCH + timedelta(days=int(known.max())) if len(known) else _EPOCH

    @property
    def size(self) -> int:
        """In bytes."""
        return self.days.nbytes + self.replies.nbytes


def instructions_read(owner_id: int, queries: Sequence[str], origins: PassageOrigins) -> SqlRead[Ids]:
    """Finds passages with standing instructions; none unless one of the ``queries`` asks for something to be made. Only
    chats with an assistant are searched for instructions."""
    if not any(map(asks_to_make, queries)) or not origins.has_assistant:
        return SqlRead(None, lambda _rows: np.zeros(0, np.int64))
    return SqlRead((INSTRUCTIONS, {"owner": owner_id, "instruction": INSTRUCTION}), lambda rows: int64s(rows[0][0]))


def lifts(
    query: str, origins: PassageOrigins, ids: Ids, instructions: Ids, should: Sequence[Ids] = ()
) -> Mapping[str, Floats]:
    """What each part of the score adds to the passages ``ids``: arrays of shape (n,) by the names of
    ``candidates.PARTS``. ``should`` are the passages that contain each of the phrases for which they rank higher. Parts
    that add nothing to any passage are left out."""
    found: dict[str, Floats] = {"phrases": np.zeros(len(ids))}
    for holding in should:
        found["phrases"][positions(ids, holding)[0]] += PHRASE
    if stretches := windows(query, origins.today):
        found["dates"] = DATES * closeness(stretches, origins.days)
    if origins.has_assistant:
        found["reply_alone"] = REPLY_ALONE * origins.replies.astype(np.float64)
    if origins.has_assistant and len(instructions) and asks_to_make(query):
        places, _here = positions(ids, instructions)
        instructed = np.zeros(len(ids))
        instructed[places] = INSTRUCTED
        found["instruction"] = instructed
    return {name: added for name, added in found.items() if added.any()}


def understood_of(
    texts: Sequence[str],
    origins: PassageOrigins,
    common: Iterable[str] = (),
    *,
    instructed: bool,
    where: Where = ANYWHERE,
    absent: Iterable[str] = (),
) -> UnderstoodQuery:
    """What was understood of a query in all its wordings, each item once. The caller passes its ``common`` words."""
    names = dict.fromkeys(name for text in texts for name in matter_of(text, origins.authors).names)
    dates = dict.fromkeys(window for text in texts for window in windows(text, origins.today))
    one_term = {word: forms for text in texts for word, forms in other_forms(text).items()}
    return UnderstoodQuery(
        names=tuple(names),
        dates=tuple(NamedDates(each.words, f"{each.first}", f"{each.last}") for each in dates),
        one_term=tuple(OneTerm(word, forms) for word, forms in one_term.items()),
        instructions=instructed and origins.has_assistant,
        where=where,
        common=tuple(common),
        absent=tuple(absent),
    )


# The words of a query in the summaries of topics.
#
# A summary may name a topic in words that nobody used in it, and it covers the whole topic, while each passage covers
# one part. So a topic gains by how much more of the query its summary says than the best of its passages. A summary
# made of the topic's own sentences says hardly more than they do, and gains next to nothing.
#
# A summary says each thing once, in a line or two. So what counts is which of the query's words it contains, weighed
# by their rarity among the summaries, in standard deviations over all summaries. Measured with the embedded sentence
# encoder, on summaries written by people (demo) and by the embedded segmenter (development set), recall@5 / recall@10
# / MRR:
#
#                               without               with
#     demo, Russian             .777 / .905 / .680    .799 / .928 / .709
#     demo, English             .778 / .922 / .553    .822 / .922 / .620
#     demo, forty older ones    .887 / .960 / .797    .921 / .952 / .809
#     development, archive      .888 / .944 / .822    .892 / .944 / .821
#     development, sessions     .895 / .951 / .827    .897 / .951 / .830
#
# The variants were compared with the demo questions in view, so their gains are flattered. Variants that were not
# adopted, in the same order, recall@5:
#
# - BM25 of the summaries instead of rarity: .799 / .800 / .900 / .890 / .896.
# - Words of the summary (.3) and its meaning (.6) added in any case, which counts the topic's own sentences twice:
#   .845 / .822 / .896 / .889 / .896, and MRR falls on the development set (.814 and .816).
# - Meaning and words of the summary as one more passage, with the odds of both added: .845 / .822 / .929 / .891 / .899
#   in one setting. In 34 others like it recall@5 over all 129 questions of the demo memory moves by -.016 to +.008, on
#   the development set by -.010 to +.002. It needs one more vector for each topic, which every search compares, and
#   which a planned change does not have when its effect is shown.
# - The same with the topic's own vector, that of summary and log: .822 / .800 / .929 / .890 / .896.


@dataclass(frozen=True, slots=True)
class SummaryWords:
    """For the summary of each of the ``topics``: how much of the query it says, in standard deviations, and whether it
    contains any of its words. ``topics`` are ascending; all arrays have shape (topics,)."""

    topics: Ids
    deviations: Floats
    holds_any: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        topics: Ids,
        wordings: Sequence[Mapping[str, Matches | None]],
        common: Collection[str] = (),
        weight: float = 1.0,
    ) -> SummaryWords:
        """From the summaries with each word, by position, for each wording of the query; the better wording counts. The
        ``common`` terms of a large memory are left out. ``weight`` is the weight of words in the fusion."""
        terms = [one_term_each(matches) for matches in wordings]
        found = [_of_wording({term: each[term] for term in each if term not in common}, len(topics)) for each in terms]
        deviations = weight * np.max([deviations for deviations, _holds in found], axis=0)
        return cls(topics, deviations, np.any([holds for _deviations, holds in found], axis=0))

    def beyond(self, topics: Ids, passages: Floats) -> Floats:
        """How much more the summaries of these topics say than words add to their ``passages``, shape (topics,)."""
        places, here = positions(self.topics, topics)
        lead = np.zeros(len(topics))
        lead[here] = np.where(self.holds_any[places], self.deviations[places] - passages[here], 0.0)
        return np.maximum(lead, 0.0)

    def speak(self, topics: Ids) -> NDArray[np.bool_]:
        """Which of these topics have a summary with a word of the query, shape (topics,)."""
        return np.isin(topics, self.topics[self.holds_any])


def _of_wording(matches: Mapping[str, Matches | None], n: int) -> tuple[Floats, NDArray[np.bool_]]:
    total, weight = rarities(matches, n)
    return z_scores(total, LEXICAL_FLOOR * weight), total > 0


_DIGITS = 6
_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class MatchedTexts:
    """Passages or cards before they are scored, by id: how near each of the n texts is, and how often it contains each
    word of the query.

    ``items`` names the owner of each card: a person's number, or an artifact's number as a negative; it is 0 for
    passages. The ``cosine`` of a text without a vector is NaN. ``common`` are words for which only some ``matches`` are
    known, with the estimated number of texts that contain each."""

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
    ``by_wording`` is ``fused`` by each wording alone, empty for a query with one wording."""

    ids: Ids
    items: Ids
    cosine: Floats
    words: Weighed
    fused: Floats
    by_wording: tuple[Floats, ...] = ()
    parts: Mapping[str, Floats] = field(default_factory=dict)
    is_sum: bool = False

    def topic_lifts(self, topics: TopicPassages, summaries: SummaryWords) -> Mapping[str, Floats]:
        """What the rest of each topic adds to the score of its best passage, by part, shape (topics,) each. The parts
        are the meaning of all its passages and the words of its summary; none when scores are not sums."""
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
    """Meaning, words and lifts added up; ``wide`` says whether the query is written mostly in non-Latin letters. Lifts
    are counted in standard deviations, so they are added only to a sum of deviations; another ``fusion`` ranks without
    them."""
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
