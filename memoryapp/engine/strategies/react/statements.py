"""An answer as statements with citations: numbers without a source are dropped, and those that are left are numbered
from 1 in the end. A statement without a number gets the number of a source that says the same. A statement that no
source supports is left out, because every statement of an answer must cite."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.kinds.react import Citation
from memoryapp.engine.strategies.react.searching import Document
from memoryapp.engine.text.lexical import bases, normal, stems
from memoryapp.engine.text.negation import Signed, signed_sentences
from memoryapp.engine.text.sentences import ASKING_MARKS, sentences, spans

# How far sources answer a question, from 0 to 1, and whether a text confirms a claim.
#
# Coverage is the likelihood of an answer, estimated from two signals. By words: the largest share of the question's
# stems, by their rarity in the whole memory, that one source contains. Words of every other message weigh nothing,
# and words that the memory does not contain weigh most. By meaning, because an answer may use other words or another
# language: the cosine of the best passage beside that of a usual answer, which is known for the embedded model; for
# other models, how many deviations the best passage is nearer than the mean of the memory. Names of authors and dates
# do not count.
#
# The weights are logistic regressions; docs/measurements.md has their figures, and those of other signals.

# The log-odds of an answer: without any signal, what the whole share of words adds, and what meaning adds: the usual
# cosine, or a deviation.
_BY_COSINE = (-2.95, 5.3, 3.49)
_BY_DEVIATIONS = (-3.65, 7.7, 0.48)

_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_CITED = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")


def terms_of(text: str) -> frozenset[str]:
    """Returns the stems of a text; irregular forms of a word become one."""
    return frozenset(bases(stems(text)))


def covered_share(weights: Mapping[str, float], known: frozenset[str]) -> float:
    """Returns the share of the terms, by weight, that are ``known``; 0 when there are no terms."""
    whole = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in known) / whole if whole else 0.0


def coverage(weights: Mapping[str, float], sources: Sequence[str], deviations: float, nearness: float = 0.0) -> float:
    """Returns the coverage of a question, given as its terms with their rarity, by ``sources``; 0 without sources.
    ``deviations`` is what meaning adds to the score of the best passage; ``nearness`` is that of ``Found``, and counts
    instead if it is known."""
    if not sources:
        return 0.0
    by_words = max(covered_share(weights, terms_of(source)) for source in sources)
    bias, words, meaning = _BY_COSINE if nearness else _BY_DEVIATIONS
    odds = bias + words * by_words + meaning * (nearness or deviations)
    return round(1 / (1 + math.exp(-odds)), 4)


def borne_out(claim: str, text: str) -> float:
    """Returns the share of a ``claim``'s stems that a ``text`` contains with the same negations. It is 0 when a figure
    of the claim is missing, and when the sentences that share most words with it say the opposite."""
    bare = _CITED.sub(" ", claim)
    if not figures(bare) <= figures(text):
        return 0.0
    wanted = frozenset[Signed]().union(*signed_sentences(_FIGURE.sub(" ", bare)))
    if not wanted:
        return float(bool(figures(bare)))
    stated = signed_sentences(text)
    if _contradicted(wanted, stated):
        return 0.0
    return len(wanted & frozenset[Signed]().union(*stated)) / len(wanted)


def _contradicted(wanted: frozenset[Signed], stated: Sequence[frozenset[Signed]]) -> bool:
    """Whether all sentences that share most stems with the claim negate one that it affirms, or the reverse."""
    terms = {term for term, _negated in wanted}
    shared = [len(terms & {term for term, _negated in sentence}) for sentence in stated]
    most = max(shared, default=0)
    nearest = [sentence for sentence, count in zip(stated, shared, strict=True) if count == most > 0]
    opposed = [
        any((term, not negated) in sentence and (term, negated) not in sentence for term, negated in wanted)
        for sentence in nearest
    ]
    return bool(opposed) and all(opposed)


def figures(text: str) -> frozenset[str]:
    """Returns the numbers in a text, without the separators that group their digits."""
    return frozenset(figure.replace(",", "").rstrip(".:") for figure in _FIGURE.findall(normal(text)))


# A statement without a number is credited to a source that contains this share of it.
_LEAST_CREDITED = 0.6
LONGEST_QUOTE = 400
_QUESTIONS_SHARE = 0.25
_LONGEST_RANGE = 20

_NUMBERS = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")
_BETWEEN = re.compile(r"[,;]")
# Models also write [1-3], [Source 2, Source 3], [^2] and 【2†source】.
_SOURCE = r"\s*+(?:(?:\^|#|№|sources?+|источник\w{0,3}+)\s*+)?+"
_ODD_NUMBERS = re.compile(
    rf"[\[【]{_SOURCE}(\d{{1,3}}+(?:\s*+[,;–-]{_SOURCE}\d{{1,3}}+)*+)\s*+(?:†[^\]】]{{0,40}})?+[\]】]", re.IGNORECASE
)
_NO_NUMBER = re.compile(r"[^\d,;–-]+")
_RANGE = re.compile(r"(\d{1,3})[–-](\d{1,3})")
_LOOSE = re.compile(r" ([.,;:!?…])")
# A number ends a sentence like a full stop; numbers after the full stop belong to the sentence before it.
_BEHIND_NUMBERS = re.compile(r"(?<=\])\s++(?=[A-ZА-ЯЁ«\"“])")
_NUMBERED = re.compile(r"\[\d")
_MARK = re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")


# A message, and offsets in its text.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without its numbers, and the numbers of its sources, ascending."""

    text: str
    numbers: tuple[int, ...]

    @property
    def cited(self) -> str:
        """The statement with its numbers: ``She signed in May [1][3].``"""
        body = self.text.rstrip(".")
        end = self.text[len(body) :][:1]
        return f"{body} {''.join(f'[{number}]' for number in self.numbers)}{end}"


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements that cite ``sources`` by their numbers. ``dropped_numbers`` cite none; of statements that cite none
    ``dropped`` were left out."""

    kept: tuple[Statement, ...]
    sources: Mapping[int, Document]
    dropped_numbers: tuple[int, ...] = ()
    dropped: int = 0

    @property
    def text(self) -> str:
        return "\n".join(statement.cited for statement in self.kept)

    def numbered(self) -> Statements:
        """The same with only the sources that are cited, numbered from 1 in the order of their citations."""
        return replace(
            self,
            kept=tuple(replace(each, numbers=self.places(each.numbers)) for each in self.kept),
            sources={place: self.sources[number] for place, number in enumerate(self._order, start=1)},
        )

    @property
    def _order(self) -> list[int]:
        return list(dict.fromkeys(number for statement in self.kept for number in statement.numbers))

    def places(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """The numbers that sources have once they are ``numbered``, ascending; sources that none cites have none."""
        renamed = {number: place for place, number in enumerate(self._order, start=1)}
        return tuple(sorted(renamed[number] for number in numbers if number in renamed))


def statements_of(answer: str, sources: Mapping[int, Document]) -> Statements:
    """A model's text as statements about the ``sources`` that the model was given. What it asks, such as the question
    once more, states nothing."""
    # With its numbers written as ``[1, 2]``.
    usual = _ODD_NUMBERS.sub(lambda found: f"[{_RANGE.sub(_listed, _NO_NUMBER.sub('', found[1]))}]", answer)
    parts = [_MARK.sub("", part.strip()) for part in _parts(usual)]
    read = [_read(part) for part in parts if _bare(part)]
    read = [each for each in read if not each.text.endswith(tuple(ASKING_MARKS))]
    unknown = tuple(dict.fromkeys(n for each in read for n in each.numbers if n not in sources))
    credited = [_credited(each, sources) for each in read]
    kept = [each for each in credited if each.numbers]
    return Statements(tuple(kept), sources, unknown, len(read) - len(kept))


def _listed(found: re.Match[str]) -> str:
    """The numbers of a range; only both ends where it is no range of sources."""
    first, last = int(found[1]), int(found[2])
    between = range(first, last + 1) if 0 < last - first < _LONGEST_RANGE else (first, last)
    return ", ".join(map(str, between))


def _parts(answer: str) -> list[str]:
    """The sentences of an answer, each with the numbers before or after its full stop."""
    parts: list[str] = []
    for line in answer.splitlines():
        cut = [part for sentence in sentences(line) for part in _BEHIND_NUMBERS.split(sentence)]
        for place, part in enumerate(cut):
            if place and _NUMBERED.match(part):
                parts[-1] = f"{parts[-1]} {part}"
            else:
                parts.append(part)
    return parts


def _bare(part: str) -> str:
    return _NUMBERS.sub("", part).strip(" .;,")


def _read(part: str) -> Statement:
    numbers = {int(digits) for found in _NUMBERS.findall(part) for digits in _BETWEEN.split(found)}
    text = " ".join(_NUMBERS.sub(" ", part).split())
    return Statement(_LOOSE.sub(r"\1", text), tuple(sorted(numbers)))


def _credited(statement: Statement, sources: Mapping[int, Document]) -> Statement:
    known = tuple(number for number in statement.numbers if number in sources)
    if known:
        return Statement(statement.text, known)
    shares = {number: borne_out(statement.text, document.text) for number, document in sources.items()}
    best = max(shares, key=lambda number: shares[number], default=0)
    is_borne_out = bool(best) and shares[best] >= _LEAST_CREDITED
    return Statement(statement.text, (best,) if is_borne_out else ())


def citations_of(statements: Statements) -> tuple[tuple[Citation, Piece], ...]:
    """The source of each number: the sentence that contains most of the statements that cite it."""
    found = []
    for number, document in statements.sources.items():
        citing = (terms_of(each.text) for each in statements.kept if number in each.numbers)
        wanted = frozenset[str]().union(*citing)
        worth = [(_worth(document, place, wanted), place) for place in quotable(document)]
        found.append(citation_at(number, document, max(worth, key=lambda each: each[0])[1]))
    return tuple(found)


def citation_at(number: int, document: Document, place: Place) -> tuple[Citation, Piece]:
    message, start, end = place
    text = next(each.text for each in document.messages if each.id == message)
    quote = text[start:end]
    passage = tuple(each.id for each in document.messages)
    return Citation(number, document.topic, message, quote, passage), Piece(quote, "exact", message, start, end)


def quotable(document: Document) -> Iterable[Place]:
    """The sentences of a document, cut to the length of a quotation; at least one."""
    found = [
        (message.id, start, _shortened(message.text, start, end))
        for message in document.messages
        for start, end in spans(message.text)
    ]
    first = document.messages[0]
    return found or [(first.id, 0, min(len(first.text), LONGEST_QUOTE))]


def _shortened(text: str, start: int, end: int) -> int:
    """The end of a sentence that is cut to the length of a quotation."""
    if end - start <= LONGEST_QUOTE:
        return end
    return start + len(text[start : start + LONGEST_QUOTE].rsplit(" ", 1)[0])


def _worth(document: Document, place: Place, wanted: frozenset[str]) -> float:
    """A question repeats the words of another question without answering it."""
    number, start, end = place
    sentence = next(message.text for message in document.messages if message.id == number)[start:end]
    return len(terms_of(sentence) & wanted) * (_QUESTIONS_SHARE if sentence.endswith("?") else 1.0)
