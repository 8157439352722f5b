"""Dates that a question names, and how near the time of a text is to them.

"What did she do in May 2023?" means a period; messages from it, or from shortly after it, count more. A date counts
only if a day, a month, a part of a month ("late May", "в начале июля") or a year is explicitly named, in English or
Russian: "may" needs a preposition or a number beside it ("may I"), a bare year counts where nothing finer is named
("format 2025" is no month), and where no year is named, this year's and last year's are meant, as seen from the last
message of the memory. A day may be a number or a word ("шестого мая").

Where nothing of this is named, a distance from the last message is read: "yesterday", "two weeks ago", "last spring",
in several languages; a month also by its number, as in 3月 and 3월.

Measured on the development set, of which 91 of 760 questions name a date, five English two-person conversations cut by
the archive, all questions: recall@5 +.019, recall@10 +.011, MRR +.025. The bounds below were chosen on it too.

Distances are named by twelve of those 760; no figure changes by them, nor one of the demo's.

Parts of months and days in words are named by seven of 157 questions about the demo memory and by two of these:
recall@10 of the Russian ones goes from .860 to .883, MRR of the English ones from .545 to .553, everything else stays.
Tried beside, and no better: the words of a date not counted as words (English recall@5 +.011, but MRR of the forty
older ones .797 to .784 and recall@10 of the development set -.001)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, date, timedelta
from itertools import pairwise

import numpy as np

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.lexical import Floats, normal, words

# Messages mention a thing on its day and on the next, then less and less, and seldom before.
_GRACE_DAYS = 1
_AFTER_DAYS = 21
_BEFORE_DAYS = 3
_BEFORE_SHARE = 0.5

_WORDS = table_beside(__file__)
MONTH_NAMES = {
    name: month
    for months in (_WORDS["months"], _WORDS["more_months"])
    for month, line in enumerate(months.splitlines(), start=1)
    for name in line.split()
}
_AMBIGUOUS = frozenset(_WORDS["other_words"].split())
_PREPOSITIONS = frozenset(_WORDS["beside"].split())
# Words between a day and its month: "12th of May", "12-го мая".
_BETWEEN = frozenset({"of", "the", "го", "е", "de"})

_ENDINGS = ("ого", "ое", "ому", "ом", "ьего", "ье", "ьему", "ьем")
_DAY_NAMES = {name: day for day, name in enumerate(_WORDS["days"].split(), start=1)} | {
    name + ending: day for day, name in enumerate(_WORDS["russian_days"].split(), start=1) for ending in _ENDINGS
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
# "2026年3月5日", "三月十四号", "3월 5일", "tháng 3".
_HAN_NUMBER = r"\d{1,2}|[一二三四五六七八九十]{1,3}"
_EASTERN = re.compile(
    rf"(?:((?:19|20)\d\d) ?[年년] ?)?(?<![\d个])(?:({_HAN_NUMBER})月|(\d{{1,2}})월)"
    rf"(?: ?(?:({_HAN_NUMBER})[日号]|(\d{{1,2}})일))?"
    r"|\bthang (\d{1,2})\b"
)
_HAN_DIGITS = {digit: value for value, digit in enumerate("一二三四五六七八九十", start=1)}


@dataclass(frozen=True, slots=True)
class Window:
    """A period, both days included, and the ``words`` of the question that name it."""

    first: date
    last: date
    words: str


@dataclass(frozen=True, slots=True)
class _Named:
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
    found = [window for each in named for window in _windows_of(each, today)]
    return tuple(dict.fromkeys(found or _relative(text, today)))


# How long ago: the words, as ``normal`` writes them, and the days, weeks, months or years before today that they name.
_AGO: Sequence[tuple[str, int, str]] = (
    ("day", 1, r"yesterday|вчера|вчора|gestern|ayer|wczoraj|昨天|昨日|어제"),
    ("day", 2, r"day before yesterday|позавчера|позавчора|vorgestern|anteayer|przedwczoraj|前天|一昨日|그저께"),
    (
        "week",
        1,
        r"last week|прошл(?:ой|ая|ую) недел\w{1,2}|минулого тижня|(?:letzte|vorige)[nr]? woche|semana pasada"
        r"|zeszlym tygodniu|gecen hafta|上周|上个?星期|先周|지난 ?주",
    ),
    (
        "month",
        1,
        r"last month|прошл(?:ом|ый|ого) месяц\w?|минулого місяця|(?:letzten|vorigen) monat|mes pasado"
        r"|zeszlym miesiacu|gecen ay|上个?月|先月|지난 ?달",
    ),
    (
        "year",
        1,
        r"last year|прошл(?:ом|ый|ого) год\w?|минулого року|(?:letztes|voriges) jahr|ano pasado|zeszlym roku"
        r"|gecen yil|去年|昨年|작년|지난해",
    ),
)
_NAMED_AGO = [(unit, count, re.compile(rf"(?<![A-Za-zА-я])(?:{names})(?![A-Za-zА-я])")) for unit, count, names in _AGO]
# A number, a unit of time, and the word for before now.
_COUNTED_AGO = [
    re.compile(r"\b(\w{1,12}) (day|week|month|year)s? ago\b"),
    re.compile(r"\b(?:(\w{1,12}) )?(день|дня|дней|недел|месяц|год|лет)\w{0,2} назад\b"),
    re.compile(r"\bvor (\w{1,12}) (tag|woche|monat|jahr)\w{0,2}\b"),
    re.compile(r"\bhace (\w{1,12}) (dia|semana|mes|ano)\w{0,2}\b"),
    re.compile(r"(\d{1,3}|[一二两三四五六七八九十]{1,3})个?(天|日|星期|周|周间|か月|ヶ月|月|年)以?前"),
    re.compile(r"(\d{1,3}|[한두세네]) ?(일|주|달|개월|년) ?전"),
]
# Nobody remembers what is longer ago, and a date has to be there.
_MOST_AGO = 99
_UNIT = {word: unit for unit, names in _WORDS["units"].items() for word in names.split()}
_COUNT = {name: count for count, line in enumerate(_WORDS["counts"].splitlines(), start=1) for name in line.split()}
_SEASON = re.compile(
    r"\b(?:last |прошл(?:ой|ую|ым|ого|ое|ая) |(?:letzte|vorige)[nrs]? )"
    r"(spring|summer|autumn|fall|winter|весн|лет|осен|зим|fruhling|fruhjahr|sommer|herbst)\w{0,3}\b"
    r"|\b(primavera|verano|otono|invierno) pasad[oa]\b"
)
_FIRST_MONTH = {name: int(month) for month, names in _WORDS["first_months"].items() for name in names.split()}


def _relative(text: str, today: date) -> Iterator[Window]:
    """The periods before ``today`` that a question names by their distance: "two weeks ago", "прошлой весной". None
    where the calendar might have no such day."""
    if not MINYEAR + _MOST_AGO <= today.year < MAXYEAR:
        return
    for season in _SEASON.finditer(text):
        yield _last_season(_FIRST_MONTH[season[1] or season[2]], today, season[0])
    for pattern in _COUNTED_AGO:
        for found in pattern.finditer(text):
            word = found[1] or "a"
            is_number = word.isdecimal() or word[0] in _HAN_DIGITS
            count = _COUNT.get(word) or (_han_number(word) if is_number else 0)
            if 0 < count <= _MOST_AGO:
                yield _before(today, _UNIT[found[2]], count, found[0])
    named = [(unit, count, each[0]) for unit, count, names in _NAMED_AGO if (each := names.search(text))]
    # "The day before yesterday" names yesterday, too.
    for unit, count, name in [each for each in named if not any(each[2] in other[2] != each[2] for other in named)]:
        yield _before(today, unit, count, name)


def _before(today: date, unit: str, count: int, name: str) -> Window:
    """The day, the week from Monday, the month or the year that was ``count`` of them before ``today``."""
    if unit == "day":
        return Window(today - timedelta(days=count), today - timedelta(days=count), name)
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * count)
        return Window(monday, monday + timedelta(days=6), name)
    months = today.year * 12 + today.month - 1 - (count if unit == "month" else 12 * count)
    return _window(_Named(name, months // 12, months % 12 + 1 if unit == "month" else None), months // 12)


def _last_season(month: int, today: date, name: str) -> Window:
    """The latest season that begins with ``month`` and has ended before ``today``."""
    for year in (today.year, today.year - 1, today.year - 2):
        ends = date(year + (month + 3 > 12), (month + 2) % 12 + 1, 1) - timedelta(days=1)
        if ends < today:
            break
    return Window(date(year, month, 1), ends, name)


def closeness(stretches: Sequence[Window], days: Floats) -> Floats:
    """How near each time is to the nearest of the ``stretches``, from 0 to 1; in the shape of ``days``. ``days`` are
    days since 1970-01-01 with fractions. NaN is an unknown time, which is near nothing."""
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
    for found in _EASTERN.finditer(text):
        month, day = _han_number(found[2] or found[3] or found[6]), _han_number(found[4] or found[5] or "")
        yield _Named(found[0], int(found[1]) if found[1] else None, month, day or None)


def _han_number(text: str) -> int:
    """The value of a number up to 99 in digits or in Chinese characters; 0 of none."""
    if not text or text.isdecimal():
        return int(text or 0)
    tens, ten, ones = text.rpartition("十")
    return (10 * _HAN_DIGITS.get(tens, 1) if ten else 0) + _HAN_DIGITS.get(ones, 0)


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
    if named.month is not None and not 1 <= named.month <= 12:
        # Month 13 of something that only looked like a date.
        return
    for year in (named.year,) if named.year else (today.year, today.year - 1):
        try:
            yield _window(named, year)
        except ValueError:
            # The thirtieth of February.
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
