"""Dates that a question names, and how near the time of a text is to them.

"What did she do in May 2023?" means a period; messages from it, or from shortly after it, count more. A date counts
only if a day, a month, a part of a month ("late May", "в начале июля") or a year is explicitly named, in English or
Russian: "may" needs a preposition or a number beside it ("may I"), a bare year counts where nothing finer is named
("format 2025" is no month), and where no year is named, this year's and last year's are meant, as seen from the last
message of the memory. A day may be a number or a word ("шестого мая").

Measured on the development set, of which 91 of 760 questions name a date, five English two-person conversations cut by
the archive, all questions: recall@5 +.019, recall@10 +.011, MRR +.025. The bounds below were chosen on it too.

Parts of months and days in words are named by seven of 157 questions about the demo memory and by two of these:
recall@10 of the Russian ones goes from .860 to .883, MRR of the English ones from .545 to .553, everything else stays.
Tried beside, and no better: the words of a date not counted as words (English recall@5 +.011, but MRR of the forty
older ones .797 to .784 and recall@10 of the development set -.001).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

import numpy as np

from memoryapp.engine.text.lexical import Floats, normal, words

# Messages mention a thing on its day and on the next, then less and less, and seldom before.
_GRACE_DAYS = 1
_AFTER_DAYS = 21
_BEFORE_DAYS = 3
_BEFORE_SHARE = 0.5

_MONTHS = """
january january's январь января январе январю январем
february february's февраль февраля феврале февралю февралем
march march's март марта марте марту мартом
april april's апрель апреля апреле апрелю апрелем
may may's май мая мае маю маем
june june's июнь июня июне июню июнем
july july's июль июля июле июлю июлем
august august's август августа августе августу августом
september sept сентябрь сентября сентябре сентябрю сентябрем
october october's октябрь октября октябре октябрю октябрем
november november's ноябрь ноября ноябре ноябрю ноябрем
december december's декабрь декабря декабре декабрю декабрем
"""
MONTH_NAMES = {name: month for month, line in enumerate(_MONTHS.strip().split("\n"), start=1) for name in line.split()}
# Names of months that are other words as well: a number or one of these must be beside them.
_AMBIGUOUS = frozenset({"may", "march"})
_BESIDE = "in of on since until till by during before after around late early mid last this next from to between"
_PREPOSITIONS = frozenset(_BESIDE.split())
# Words between a day and its month: "12th of May", "12-го мая".
_BETWEEN = frozenset({"of", "the", "го", "е"})

# The days of a month in words, the first of them first. Of the Russian ones only the beginning, before their ending.
_DAYS = """
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth
sixteenth seventeenth eighteenth nineteenth twentieth
"""
_RUSSIAN_DAYS = """
перв втор трет четверт пят шест седьм восьм девят десят одиннадцат двенадцат тринадцат четырнадцат пятнадцат шестнадцат
семнадцат восемнадцат девятнадцат двадцат
"""
_ENDINGS = ("ого", "ое", "ому", "ом", "ьего", "ье", "ьему", "ьем")
_DAY_NAMES = {name: day for day, name in enumerate(_DAYS.split(), start=1)} | {
    name + ending: day for day, name in enumerate(_RUSSIAN_DAYS.split(), start=1) for ending in _ENDINGS
}
_DAY_NAMES |= {"thirtieth": 30, "тридцатое": 30, "тридцатого": 30}
_TENS = {"twenty": 20, "двадцать": 20, "thirty": 30, "тридцать": 30}

# Parts of a month: their days from and to, their names, and the word that has to precede the name, if any.
_LAST_DAY = 31
_PARTS = (
    ((1, 12), "early beginning start начало начала начале началу", ""),
    ((9, 21), "mid middle середина середины середине середину", ""),
    ((20, _LAST_DAY), "late end конец конца конце концу", ""),
    ((1, 15), "half половина половины половине половину", "first первая первой первую"),
    ((16, _LAST_DAY), "half половина половины половине половину", "second latter вторая второй вторую"),
    ((1, 12), "days week числа числах дни дней неделя неделю неделе", "first первые первых первая первую первой"),
    (
        (20, _LAST_DAY),
        "days week числа числах дни дней неделя неделю неделе",
        "last последние последних последнюю последней",
    ),
)
_PART = {
    (before, name): days
    for days, names, befores in _PARTS
    for name in names.split()
    for before in befores.split() or [""]
}

_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?!\d)")
_DOTTED = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class Window:
    """A period, both days included, and the ``words`` of the question that name it."""

    first: date
    last: date
    words: str


@dataclass(frozen=True, slots=True)
class _Named:
    """The parts of a date that were named."""

    words: str
    year: int | None = None
    month: int | None = None
    day: int | None = None
    part: tuple[int, int] = (1, _LAST_DAY)


def windows(question: str, today: date) -> tuple[Window, ...]:
    """The periods that a ``question`` names, as seen on ``today``; each once, in order."""
    text = normal(question)
    numeric = list(_numeric(text))
    named = numeric or list(_months(words(text)))
    if not named:
        named = [_Named(each, int(each)) for each in words(text) if _YEAR.fullmatch(each)]
    found = (window for each in named for window in _windows_of(each, today))
    return tuple(dict.fromkeys(found))


def closeness(stretches: Sequence[Window], days: Floats) -> Floats:
    """How near each time is to the nearest of the ``stretches``, from 0 to 1; in the shape of ``days``.

    ``days`` are days since 1970-01-01 with fractions. NaN is an unknown time, which is near nothing.
    """
    nearest = np.zeros(len(days))
    for each in stretches:
        before = _number(each.first) - days
        # The last day ends when the next one begins.
        after = days - (_number(each.last) + 1 + _GRACE_DAYS)
        falling = 1 - after / _AFTER_DAYS
        rising = _BEFORE_SHARE * (1 - before / _BEFORE_DAYS)
        near = np.where(before > 0, rising, np.where(after > 0, falling, 1.0))
        nearest = np.maximum(nearest, near)
    return np.where(np.isnan(days), 0.0, nearest)


def _number(day: date) -> int:
    return (day - date(1970, 1, 1)).days


def _numeric(text: str) -> Iterator[_Named]:
    """2023-05-12, 2023-05 and 12.05.2023."""
    for found in _ISO.finditer(text):
        yield _Named(found[0], int(found[1]), int(found[2]), int(found[3]) if found[3] else None)
    for found in _DOTTED.finditer(text):
        yield _Named(found[0], int(found[3]), int(found[2]), int(found[1]))


def _months(tokens: Sequence[str]) -> Iterator[_Named]:
    for at, token in enumerate(tokens):
        if token in MONTH_NAMES:
            before, after = _neighbours(tokens, at)
            day = _day(before[1]) or _day(after[0])
            has_day_behind = not _day(before[1]) and _day(after[0]) is not None
            year = _year(after[1] if has_day_behind else after[0]) or _year(before[1])
            if token in _AMBIGUOUS and not (day or year or (at and tokens[at - 1] in _PREPOSITIONS)):
                continue
            named = _Named(_joined(token, day, year), year, MONTH_NAMES[token], day)
            yield named if day else _put_in_words(named, before)


def _neighbours(tokens: Sequence[str], at: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """The two words before a month and the two after it, without those between a day and its month."""
    before = ["", "", *(token for token in tokens[max(0, at - 4) : at] if token not in _BETWEEN)][-2:]
    behind = [*(token for token in tokens[at + 1 : at + 5] if token not in _BETWEEN), "", ""][:2]
    return (before[0], before[1]), (behind[0], behind[1])


def _put_in_words(named: _Named, before: tuple[str, str]) -> _Named:
    """The month with its day or its part, if one of the words ``before`` names it."""
    if day := _in_words(before):
        return replace(named, day=day, words=f"{_last(before, before[0] in _TENS)} {named.words}")
    for qualifier in (before[0], ""):
        if part := _PART.get((qualifier, before[1])):
            return replace(named, part=part, words=f"{_last(before, bool(qualifier))} {named.words}")
    return named


def _last(before: tuple[str, str], is_both: bool) -> str:
    return " ".join(before) if is_both else before[1]


def _in_words(before: tuple[str, str]) -> int | None:
    """The day that these two words name: the second one alone, or both as in "twenty first"."""
    day = _DAY_NAMES.get(before[1])
    return _TENS[before[0]] + day if day and day < 10 and before[0] in _TENS else day


def _day(token: str) -> int | None:
    found = _DAY.fullmatch(token)
    return int(found[1]) if found and 1 <= int(found[1]) <= 31 else None


def _year(token: str) -> int | None:
    return int(token) if _YEAR.fullmatch(token) else None


def _joined(month: str, day: int | None, year: int | None) -> str:
    return " ".join(str(part) for part in (day, month, year) if part)


def _windows_of(named: _Named, today: date) -> Iterator[Window]:
    for year in (named.year,) if named.year else (today.year, today.year - 1):
        try:
            yield _window(named, year)
        except ValueError:
            # The thirtieth of February, or month 13 of something that only looked like a date.
            continue


def _window(named: _Named, year: int) -> Window:
    if named.month is None:
        return Window(date(year, 1, 1), date(year, 12, 31), named.words)
    if named.day is None:
        firsts = [date(year + month // 12, month % 12 + 1, 1) for month in (named.month - 1, named.month)]
        first, last = next((one, other - timedelta(days=1)) for one, other in pairwise(firsts))
        begins, ends = named.part
        return Window(first.replace(day=begins), last.replace(day=min(ends, last.day)), named.words)
    day = date(year, named.month, named.day)
    return Window(day, day, named.words)
