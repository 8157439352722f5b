"""Compares facts word by word: whether two say the same, whether one denies the other, and whether one is about health.
Vectors cannot tell this: "allergic to peanuts" and "allergic to walnuts", or "likes coffee" and "no longer likes
coffee", lie as near to each other as two wordings of one fact."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from asgiref.sync import async_to_sync
from django.conf import settings
from numpy.typing import NDArray

from memoryapp.engine.embeddings import Embedder
from memoryapp.engine.text.lexical import stems, words

# By meaning: each text is embedded once in a pass, and never inside a transaction.


# Texts with at least this cosine differ only in spelling.
SAME_MEANING = 0.97


def folded(text: str) -> str:
    """Returns only the text's letters and digits, in lower case, for comparing texts word by word."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold().replace("ё", "е")).split())


class Meanings:
    """The vectors of the texts of one pass. ``alike`` is the least cosine with which one fact replaces another;
    ``related`` is the lower limit for a relation of which only one fact can be true."""

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


# Words that say that something has ended, or is not so; in folded text, where "doesn't" is "doesn t".
_ENDS = re.compile(
    r"\b(?:no longer|any ?more|any longer|(?:has |have )?stopped|stops|quits?|(?:gave|gives|given|giving) up|ceased"
    r"|used to|formerly|(?:больше|более|уже) не|перестал[аи]?|бросил[аи]?|прекратил[аи]?|отказал(?:ся|ась|ись) от)\b"
)
_FELL_OUT = re.compile(r"\bразлюбил[аи]?\b")
_DENIALS = re.compile(r"\b(?:not|no|never|cannot|without|[a-z]+n t|не|нет|ни|никогда|без)\b")
_EMPTY = frozenset(stem for word in ("user", "пользователь", "пользовательница") for stem in stems(word))
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_HEALTH = re.compile(
    r"\b(?:health|medic|allerg|illness|disease|diagnos|doctor|symptom|treatment|therap|intoleran|pregnan|diabet|asthma|vaccin"
    r"|surger|blood|dosage|hospital|clinic|disorder|chronic|injur|cancer|depress|prescri|pain\b|pains\b|painful|pills?\b|mg\b"
    r"|здоров|медиц|медик|аллерг|болезн|болеет|болен|больна|диагноз|лекарств|лечен|лечит|врач|доктор|симптом|терап"
    r"|непереносим|беремен|диабет|астм|прививк|вакцин|дозиров|таблет|больниц|клиник|хроническ|травм|депресс|боль\b|боли\b|мг\b)"
)


@dataclass(frozen=True, slots=True)
class FactStatement:
    """The stems of a fact's telling words, its numbers among them, and whether it says that something is not so or has
    ended."""

    stems: frozenset[str]
    is_denied: bool

    def repeats(self, other: FactStatement) -> bool:
        """Whether both say the same in other words: no number, name or noun differs."""
        return self == other

    def denies(self, earlier: FactStatement) -> bool:
        """Whether only one of both can be true: what ended or is not so includes what the other one says, or what was
        denied earlier is so again."""
        if self.is_denied == earlier.is_denied:
            return False
        narrow, wide = (self.stems, earlier.stems) if self.is_denied else (earlier.stems, self.stems)
        return bool(narrow) and narrow <= wide and (len(narrow) > 1 or len(wide) <= 2)


@lru_cache(maxsize=50_000)
def statement(content: str) -> FactStatement:
    text = _FELL_OUT.sub("не любит", folded(content))
    left = _DENIALS.sub(" ", _ENDS.sub(" ", text))
    found = frozenset(stem for word in words(left) for stem in stems(word)) - _EMPTY
    return FactStatement(found, is_denied=left != text)


def years(content: str) -> frozenset[str]:
    return frozenset(_YEAR.findall(content))


def is_about_health(*texts: str) -> bool:
    """Whether a fact with these texts (relation, category, content) is about somebody's health."""
    return any(_HEALTH.search(folded(text)) for text in texts)
