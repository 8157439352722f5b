"""Wording of a question that carries nothing: greetings, courtesy, "remind me", "do you know", "again". It is taken off
before words count and before a vector is made, so a question finds the same with and without it. The phrases are data,
compared word by word in one spelling, which makes case, accents and punctuation alike."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import product

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.lexical import is_question_word, normal
from memoryapp.engine.text.scripts import WORD

_PHRASES = table_beside(__file__)
_LONGEST = 2_000
_MOST = 12


def bare(question: str) -> str:
    """The question without what frames it; the whole of it where nothing else would remain, and of a long text."""
    if len(question) > _LONGEST:
        return question
    found = list(WORD.finditer(question))
    words = [normal(word[0]) for word in found]
    first, last = _opened(words), len(words)
    while last > first and (length := _length(words[first:last][::-1], _closings())):
        last -= length
    if words[first : first + 1] in (["what"], ["how"]) and (length := _length(words[first:last][::-1], _called())):
        last -= length
    if not any(not is_question_word(word) for word in words[first:last]):
        return _unspaced(question)
    if (first, last) == (0, len(words)):
        return _unspaced(question)
    # What follows the last word is of the question where it is its mark.
    end = found[last - 1].end()
    mark = next((mark for mark in question[end:] if mark in "?？؟"), "")
    return question[found[first].start() : end] + mark


def _opened(words: list[str]) -> int:
    """The place of the first word after the opening."""
    at = 0
    while length := _length(words[at : at + _MOST], _openings()):
        at += length
        at += _length(words[at : at + _MOST], _joining())
    return at


def _unspaced(text: str) -> str:
    plain = text.strip()
    for phrase in _PHRASES["unspaced_opening"].split():
        plain = plain.removeprefix(phrase).lstrip(" ,、，:：")
    ended = plain.rstrip("?？。.! ")
    for phrase in _PHRASES["unspaced_closing"].split():
        ended = ended.removesuffix(phrase)
    plain = ended.rstrip(" ,、，") if ended != plain.rstrip("?？。.! ") else plain
    return plain if WORD.search(plain) and len(plain) < len(text.strip()) else text


def _length(words: list[str], phrases: Mapping[str, Collection[tuple[str, ...]]]) -> int:
    """How many of the first ``words`` the longest of the phrases takes; 0 for none."""
    known = phrases.get(words[0], ()) if words else ()
    fitting = (len(phrase) for phrase in known if tuple(words[: len(phrase)]) == phrase)
    return max(fitting, default=0)


def _phrases(written: str) -> Iterator[tuple[str, ...]]:
    for phrase in written.replace("\n", " ").split(","):
        slots = [slot.split("|") for slot in phrase.split(" ") if slot]
        for words in product(*slots):
            parts = " ".join(word.replace("_", " ") for word in words if word)
            if parts:
                yield tuple(normal(found[0]) for found in WORD.finditer(parts))


def _by_first(phrases: Iterator[tuple[str, ...]]) -> Mapping[str, Collection[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = {}
    for phrase in phrases:
        found.setdefault(phrase[0], set()).add(phrase)
    return found


@cache
def _openings() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(_phrases(_PHRASES["opening"]))


@cache
def _joining() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(_phrases(_PHRASES["joining"]))


@cache
def _closings() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(phrase[::-1] for phrase in _phrases(_PHRASES["closing"]))


@cache
def _called() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(phrase[::-1] for phrase in _phrases(_PHRASES["called"]))
