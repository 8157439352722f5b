"""The ends of sentences in talk: the only place that decides them, for quotations, answers, summaries and headlines.

A sentence ends at its marks before white space, and at a line's end. So a figure ("0.9"), a version ("v1.2"), an
address and the name of a file are never cut. A full stop after an abbreviation ("e.g.", "т. е.", "J. Smith") or after
the number of a list item ends no sentence. After an abbreviation that can end a sentence ("etc.", "и т. д.", "2026 г.")
it does, if the next word begins with a capital letter. The full stops of Chinese and Japanese, which no space follows,
and those of Hindi, Arabic and Urdu end one always."""

import re
from collections.abc import Iterator

Span = tuple[int, int]

# Marks that end a question in any script.
ASKING_MARKS = "?？؟"
# Each mark begins at most one attempt, so that the time grows linearly with the length.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'»”’)\]*_`]*+(?=\s|\Z)|[。！？｡।؟۔]++[\"'»”’)\]」』）]*+|\n")
_LONGEST_ABBREVIATION = 12
_OPENING = "([{«\"“„'*_`-–—"

_NEVER_ENDING = """
e.g i.e vs cf mr mrs ms dr prof st nr fig vol approx
напр рис табл гл стр ул пр-т просп пер корп кв проф акад доц тел т.е т.к т.н т.о прибл
"""
_NEVER = frozenset(_NEVER_ENDING.split())
_SELDOM_ENDING = """
etc inc ltd co corp jr sr a.m p.m al
т.д т.п д п др пр г гг в вв н.э руб коп тыс млн млрд см сек мин ч
"""
_SELDOM = frozenset(_SELDOM_ENDING.split())
# Words of one letter that may end a sentence.
_WORDS = frozenset(["i", "я"])


def spans(text: str) -> Iterator[Span]:
    """The sentences of a text in order, as offsets without surrounding white space."""
    start = 0
    for found in _END.finditer(text):
        if found[0] == "\n" or _ends(text, start, found):
            yield from _trimmed(text, start, found.end())
            start = found.end()
    yield from _trimmed(text, start, len(text))


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in spans(text)]


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    sentence = text[start:end]
    left = sentence.lstrip()
    if left:
        yield end - len(left), start + len(sentence.rstrip())


def _ends(text: str, start: int, marks: re.Match[str]) -> bool:
    """Whether the ``marks`` of a sentence that begins at ``start`` end it."""
    if marks[0] != ".":
        return True
    before = text[max(start, marks.start() - _LONGEST_ABBREVIATION) : marks.start()]
    is_item = before.strip().isdecimal() and marks.start() - start <= _LONGEST_ABBREVIATION
    word = next(reversed(before.split()), "").lstrip(_OPENING)
    if is_item or word.lower() in _NEVER:
        return False
    if word.lower() in _SELDOM:
        return text[marks.end() : marks.end() + _LONGEST_ABBREVIATION].lstrip().lstrip(_OPENING)[:1].isupper()
    return not _is_initials(word)


def _is_initials(word: str) -> bool:
    """Whether a word, without its last full stop, consists of letters with full stops between them: "J", "U.S"."""
    letters = word.split(".")
    return all(len(letter) == 1 and letter.isalpha() for letter in letters) and word.lower() not in _WORDS
