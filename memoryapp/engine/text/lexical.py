"""Words: how text is folded before Postgres stems it, and how BM25 weighs the matches.

Passages and queries are folded in the same way, so that ``GPT-5``, ``GPT 5`` and ``gpt5`` match each other: the joined
form is added to the parts. Weights are computed here, in numpy, from term counts of the database; ``stems`` does the
same without a database, for the embedded scorer.

BM25 is Lucene's (Robertson and Zaragoza 2009, without the constant k1 + 1). Measured on 760 questions over
five public two-person conversations, passages of 400 characters: k1 from 0.9 to 1.5 and b from 0.3 to 0.75
lie within 0.005 recall@5 of each other, k1 2.5 loses 0.01 F1; these values sit in the middle of the plateau."""

import re
import threading
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from os.path import commonprefix
from types import MappingProxyType

import numpy as np
import snowballstemmer
from numpy.typing import NDArray

from memoryapp.engine.beside import table_beside
from memoryapp.engine.json_values import storable
from memoryapp.engine.text.scripts import WORD, has_own_terms, one_spelling, terms

K1 = 1.2
B = 0.5

# Bytes per character: Latin text has slightly more than 1.0, Russian text with many Latin names still 1.5.
WIDE = 1.3

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The sorting of combining marks takes the square of their number, and it holds the interpreter.
_MOST_AT_ONCE = 1_000
_PIECE = re.compile(r"\s+|\S{1,500}")

_PUNCTUATION = ".,:;!?…\"'«»“”()[]"
# A name and its number ("GPT-5", "llama 3.1"), a number and its name ("3-НДФЛ"), two halves ("Wi-Fi").
_NAMED = re.compile(r"(?<![^\W_])([^\W\d_]+)[\s\-_]?(\d+(?:\.\d+)*)(?![^\W_])")
_NUMBERED = re.compile(r"(?<![^\W_])(\d+)-?([^\W\d_]+)(?![^\W_])")
_HALVES = re.compile(r"(?<![^\W_]|-)([^\W\d_]+)-([^\W\d_]+)(?![^\W_]|-)")
_MAY_JOIN = re.compile(r"[\d-]")
# Postgres reads a hyphen before a digit as a minus: "GPT-5" would contain the number -5.
_HYPHEN_BEFORE_DIGIT = re.compile(r"(?<=\w)-(?=\d)")


_WORDS = table_beside(__file__)
_STOPPED_HERE = frozenset(_WORDS["stopped"].split())
_ELSEWHERE = frozenset(one_spelling(_WORDS["stopped_elsewhere"]).split())
_STOP_WORDS = _STOPPED_HERE | _ELSEWHERE


# How many letters of two words are the same, from the first, where they may be forms of one.
_BEGINNING, _MOSTLY = 4, 0.55
# The same where one word is the other and an ending.
_SHORTEST, _ENDING = 3, 2


def is_wide(text: str) -> bool:
    """Whether most of ``text`` is written in non-Latin letters; it then shares no words with Latin text."""
    return len(storable(text).encode()) > WIDE * len(text)


def compatible(text: str) -> str:
    """The compatibility form (NFKC); of a long text word by word, and of a word of 500 characters piece by piece."""
    if len(text) <= _MOST_AT_ONCE or unicodedata.is_normalized("NFKC", text):
        return unicodedata.normalize("NFKC", text)
    return _PIECE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)


def normal(text: str) -> str:
    """Lower case, one form per character, and one spelling: ``е`` for ``ё``, no accents."""
    plain = storable(text)
    return plain.lower() if plain.isascii() else one_spelling(compatible(plain).lower())


def fold(text: str) -> str:
    """The text that ``to_tsvector('russian', …)`` gets, for passages and for queries: Postgres stems English and
    Russian words, those of other alphabets come as their terms."""
    return " ".join((fold_phrase(text), *_joined(normal(text))))


def fold_phrase(text: str) -> str:
    """``text`` folded in its own order, without joined forms."""
    plain = normal(text)
    spaced = plain
    if has_own_terms(plain):
        spaced = WORD.sub(lambda word: f" {' '.join(terms(word[0]))} " if has_own_terms(word[0]) else word[0], plain)
    return _HYPHEN_BEFORE_DIGIT.sub(" ", spaced)


def fold_query(text: str) -> str:
    """``text`` folded, without question words: Postgres treats "как" as a stop word and stems "какие" to it."""
    return " ".join(word for word in fold(text).split() if word.strip(_PUNCTUATION) not in _STOP_WORDS)


def is_question_word(word: str) -> bool:
    """Whether a word only asks a question, in English or Russian."""
    return normal(word) in _STOP_WORDS


def _joined(plain: str) -> list[str]:
    if not _MAY_JOIN.search(plain):
        return []
    pairs = [*_NAMED.findall(plain), *_NUMBERED.findall(plain), *_HALVES.findall(plain)]
    return list(dict.fromkeys(f"{left}{right}".replace(".", "") for left, right in pairs))


def asks_elsewhere(question: str) -> bool:
    """Whether the words that only ask are rather of another language than of English or Russian."""
    found = words(normal(question))
    return sum(word in _ELSEWHERE for word in found) > sum(word in _STOPPED_HERE for word in found)


def words(text: str) -> list[str]:
    return WORD.findall(text)


def count_terms(text: str) -> int:
    """The number of words in ``text`` with stop words, or of terms in other alphabets: its length for BM25."""
    found = words(text if text.isascii() else normal(text))
    return sum(len(terms(word)) if has_own_terms(word) else 1 for word in found)


def stems(text: str) -> list[str]:
    """Stems of the words in order, stop words left out, joined forms last."""
    plain = normal(text)
    found = words(plain)
    if has_own_terms(plain):
        found = [term for word in found for term in (terms(word) if has_own_terms(word) else (word,))]
    telling = [word for word in found if word not in _STOP_WORDS]
    known = set(telling)
    return [_stem(word) for word in telling] + [word for word in _joined(plain) if word not in known]


def is_alike(one: str, other: str) -> bool:
    """Whether two words may be forms of one, judged by their beginnings, in a language without a stemmer here: "rower"
    and "roweru", "Zahnarzt" and "Zahnarzttermin"."""
    short, long = sorted((one, other), key=len)
    same = len(commonprefix((short, long)))
    if same == len(short):
        return same > _BEGINNING or (same >= _SHORTEST and len(long) - same <= _ENDING)
    return same >= _BEGINNING and same >= _MOSTLY * len(long)


class _Stemmers(threading.local):
    """A stemmer keeps the word it works on, so each thread has its own."""

    def __init__(self) -> None:
        self.english = snowballstemmer.stemmer("english")
        self.russian = snowballstemmer.stemmer("russian")


_stemmers = _Stemmers()


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    stemmed: str = (_stemmers.english if word.isascii() else _stemmers.russian).stemWord(word)
    return stemmed


@dataclass(frozen=True, slots=True)
class Matches:
    """The documents that contain a term: their positions, ascending, and how often each contains it."""

    documents: Indices
    counts: Floats


@dataclass(frozen=True, slots=True)
class Weighed:
    """BM25 of n documents. ``total`` has shape (n,); ``terms`` is what each query term adds to it, also (n,).
    ``weight`` is the idf of all query terms together, found or not: the measure of a perfect match. ``rarity`` is the
    idf of each term that was found."""

    total: Floats
    terms: Mapping[str, Floats]
    weight: float
    rarity: Mapping[str, float] = field(default_factory=dict)


def idf(documents: int, holding: int) -> float:
    """Lucene's, never negative."""
    return float(np.log1p((documents - holding + 0.5) / (holding + 0.5)))


def rarities(matches: Mapping[str, Matches | None], n: int) -> tuple[Floats, float]:
    """The idf of all terms that each of ``n`` documents holds, shape (n,), and that of all terms, found or not."""
    total, weight = np.zeros(n), 0.0
    for found in matches.values():
        rarity = idf(n, len(found.documents) if found else 0)
        weight += rarity
        if found:
            total[found.documents] += rarity
    return total, weight


def bm25(
    matches: Mapping[str, Matches | None], lengths: Floats, common: Mapping[str, int] = MappingProxyType({})
) -> Weighed:
    """Weighs every document against the query's terms; None means a term that no document contains. ``lengths`` are the
    numbers of words of the documents, shape (n,). For ``common`` terms only some matches are given; it maps each to the
    number of documents that contain it."""
    n = len(lengths)
    mean = max(float(lengths.mean()), 1.0) if n else 1.0
    total, terms, rarities = np.zeros(n), dict[str, Floats](), dict[str, float]()
    weight = 0.0
    for term, found in matches.items():
        rarity = idf(n, max(len(found.documents) if found else 0, min(common.get(term, 0), n)))
        weight += rarity
        if found or term in common:
            rarities[term] = rarity
        if found:
            # A term is in few of the documents, so only those are computed.
            damping = K1 * (1 - B + B * lengths[found.documents] / mean)
            terms[term] = np.zeros(n)
            terms[term][found.documents] = rarity * found.counts / (found.counts + damping)
            total[found.documents] += terms[term][found.documents]
    return Weighed(total, terms, weight, rarities)


# Irregular English forms: "went" and "go", "children" and "child" are one word, though no stemmer joins them.
#
# Search counts all forms of a word as one term, at query time, so stored data need not change. Left out are forms
# that a stemmer joins already ("goes", "making"), stop words ("was", "had"), and forms that are more often another
# word ("left", "saw" the tool, "found" an institute, "lay").
#
# Measured on the development set, 760 questions over five public English two-person conversations cut by the archive,
# by which the list was made too: recall@5 +.002, recall@10 unmoved, MRR +.007.
_VERBS = frozenset(_WORDS["verbs"].split())


@cache
def _forms_of() -> Mapping[str, tuple[str, ...]]:
    groups = [tuple(line.split()) for line in (_WORDS["verbs"] + _WORDS["nouns"]).splitlines()]
    return {form: group for group in groups for form in group}


def is_irregular_verb(word: str) -> bool:
    """Whether ``word``, in lower case, is a form of a verb of the list."""
    return word in _VERBS


@cache
def _bases() -> Mapping[str, str]:
    """The stem of every form, with the stem of its word's base form."""
    return {stem: stems(group[0])[0] for form, group in _forms_of().items() for stem in stems(form)}


def base(stem: str) -> str:
    """The stem of the base form if ``stem`` belongs to an irregular form, otherwise ``stem`` itself."""
    return _bases().get(stem, stem)


def bases(found: Iterable[str]) -> list[str]:
    known = _bases()
    return [known.get(stem, stem) for stem in found]


def other_forms(text: str) -> dict[str, tuple[str, ...]]:
    """The irregular words of a ``text`` in lower case, each with the other forms of the same word."""
    known = _forms_of()
    found = dict.fromkeys(word for word in words(text.lower()) if word in known)
    return {word: tuple(form for form in known[word] if form != word) for word in found}
