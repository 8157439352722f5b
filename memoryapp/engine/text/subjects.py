"""The subject of a talk in a few words, without a chat model: "Sourdough starter, rye, router".

Key phrases are up to three adjacent words that look like nouns or names, frequent in the talk and rare in the rest of
the memory. What a person says counts more than what an assistant answers, the opening most of all; two words together
count more than each alone, a name more than another word. Which of them the talk is about as a whole, vectors decide
(``summaries``)."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memoryapp.engine.text.scripts import WORD, has_own_terms
from memoryapp.engine.text.terms import fitness, naming_stems, reading_form

MOST_WORDS = 3
# So many phrases are compared with the talk by their vectors.
SHORTLIST = 24
# A phrase worth less than this share of the best says nothing of the talk.
_LEAST_WORTH = 0.25
_ONCE = 0.5
_NAME_WORTH = 1.25
# Of several words: a name, what is said again, and any other.
_NAMES_WORTH, _AGAIN_WORTH, _ONCE_WORTH = 1.3, 1.35, 1.2
_LONGER_WORTH = 0.1
_SHORTEST = 3
_TOKEN = re.compile(rf"({WORD.pattern}(?:['’./-]{WORD.pattern})*)|[^\w\s]")


class KeyPhrase(NamedTuple):
    """As it is written most often; ``worth`` is 1 for the best of a talk."""

    text: str
    stems: frozenset[str]
    worth: float


class _Word(NamedTuple):
    """A word that may name a subject. A capital letter at the beginning of a sentence makes no name of it."""

    text: str
    stems: tuple[str, ...]
    is_name: bool


@dataclass(slots=True)
class _Found:
    """How often a phrase is said: ``weight`` by messages; ``names`` counts where it is written as a name."""

    weight: float = 0.0
    names: int = 0
    forms: Counter[str] = field(default_factory=Counter)


def key_phrases(
    weighed: Iterable[tuple[Iterable[str], float]], rarity: Callable[[str], float], is_left_out: Callable[[str], bool]
) -> list[KeyPhrase]:
    """The best phrases of a talk, at most ``SHORTLIST``, the best first. ``weighed`` are the sentences of each message
    with its weight; ``rarity`` is that of a stem in the memory; stems that ``is_left_out`` (of speakers' names) are in
    no phrase."""
    found: defaultdict[tuple[str, ...], _Found] = defaultdict(_Found)
    for sentences, weight in weighed:
        for key, phrases in _of_message(sentences, is_left_out).items():
            entry = found[key]
            entry.weight += weight
            entry.names += sum(all(word.is_name for word in phrase) for phrase in phrases)
            entry.forms.update(_written(phrase) for phrase in phrases)
    singles: dict[tuple[str, ...], float] = {
        key: _of_one(entry, rarity(key[0])) for key, entry in found.items() if len(key) == 1
    }
    worths = {key: _worth(key, entry, singles) for key, entry in found.items()}
    best = sorted(worths, key=lambda key: (-worths[key], key))[:SHORTLIST]
    least = _LEAST_WORTH * max(worths.values(), default=0.0)
    return [
        KeyPhrase(reading_form(found[key].forms), frozenset(key), worths[key] / worths[best[0]])
        for key in best
        if worths[key] > least
    ]


def _of_message(
    sentences: Iterable[str], is_left_out: Callable[[str], bool]
) -> dict[tuple[str, ...], list[tuple[_Word, ...]]]:
    """The phrases of a message by their stems."""
    found: defaultdict[tuple[str, ...], list[tuple[_Word, ...]]] = defaultdict(list)
    for sentence in sentences:
        for run in _runs(sentence, is_left_out):
            for start in range(len(run)):
                for phrase in (run[start:end] for end in range(start + 1, min(len(run), start + MOST_WORDS) + 1)):
                    found[tuple(stem for word in phrase for stem in word.stems[:1])].append(tuple(phrase))
    return found


def _runs(sentence: str, is_left_out: Callable[[str], bool]) -> Iterator[list[_Word]]:
    """The naming words of a sentence that stand together."""
    run: list[_Word] = []
    is_first = True
    for token in _TOKEN.finditer(sentence):
        word = _word(token[1], is_left_out, is_first=is_first) if token[1] else None
        is_first = is_first and not token[1]
        if word:
            run.append(word)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _word(text: str, is_left_out: Callable[[str], bool], *, is_first: bool) -> _Word | None:
    if has_own_terms(text) or text[0].isdecimal() or (len(text) < _SHORTEST and not text.isupper()):
        return None
    found = tuple(stem for stem in naming_stems(text) if not is_left_out(stem))
    has_capital_inside = text[1:] != text[1:].lower()
    is_name = has_capital_inside or (text[0].isupper() and not is_first)
    return _Word(text, found, is_name) if found else None


def _written(phrase: Sequence[_Word]) -> str:
    """The words; the first has the capital letter of its sentence only before a name ("Tom Becker")."""
    first, *rest = phrase
    lower = first.text if first.is_name or (rest and rest[0].is_name) else first.text.lower()
    return " ".join((lower, *(word.text for word in rest)))


def _of_one(found: _Found, rarity: float) -> float:
    shape = max(fitness(form) for form in found.forms)
    is_name = found.names >= max(1, found.forms.total() / 2)
    return math.log1p(_ONCE * found.weight) * rarity * (max(shape, _NAME_WORTH) if is_name else shape)


def _worth(key: tuple[str, ...], found: _Found, singles: dict[tuple[str, ...], float]) -> float:
    if len(key) == 1:
        return singles[key]
    times = found.forms.total()
    is_name = found.names == times
    if len(key) == MOST_WORDS and times == 1 and not is_name:
        return 0.0
    mean = sum(singles.get((stem,), 0.0) for stem in key) / len(key)
    shape = 1.0 if is_name else max(min(map(fitness, form.split())) for form in found.forms)
    of_kind = _NAMES_WORTH if is_name else _AGAIN_WORTH if times > 1 else _ONCE_WORTH
    return mean * shape * of_kind * (1 + _LONGER_WORTH * (len(key) - 1))
