"""The head of a line in WhatsApp's export: date and time as the phone's language writes them.

Known are: digits of any script; dates with ``.``, ``/``, ``-`` or the signs for year, month and day; the time before or
after the date; the half of the day before or after the time, in the words of every language of CLDR, of which
``halves_of_day.json`` is a table (made from Babel 2.18); months with names, of which ``months.json`` is one; marks for
right-to-left text anywhere; and three ends of a head: ``]``, a dash, and in old exports of iPhones a colon. KakaoTalk
writes dates alike (see ``kakaotalk``), with other ends.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

LONGEST_AUTHOR = 60
_MOST_WORDS_OF_NAME = 3
# A head is within the first characters of a line.
LONGEST_HEAD = 120
# What may stand beside a time and says nothing about the half of the day.
FILLERS = frozenset(
    [
        "à",
        "a",
        "às",
        "as",
        "at",
        "al",
        "alle",
        "kl",
        "klo",
        "uhr",
        "um",
        "om",
        "ore",
        "ora",
        "orë",
        "ob",
        "o",
        "u",
        "v",
        "в",
        "у",
        "г",
        "год",
        "р",
        "ч",
        "ч.",
        "години",
        "ב",
        "בשעה",
        "lúc",
        "giờ",
        "น",
        "นาฬิกา",
        "kell",
        "saat",
        "pukul",
        "jam",
    ]
)
# A word beside the time that nobody knows must be short, or the line is somebody's text that has a date in it.
LONGEST_UNKNOWN = 6
MARKS = "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\ufeff"
YEAR_SIGNS = "年년"

_DATE = r"(\d{1,4}) ?([./年년-]) ?(\d{1,2}) ?[./月월-] ?(\d{1,4})"
_TIME = r"(\d{1,2}) ?[:.h時时點点시] ?(\d{2})(?: ?[:.分분] ?(\d{2}))?"
_GAP = r"([^\d\[\]:]{0,40}?)"
_NARROW_GAP = r"([^\d\[\]:,~–—-]{0,20}?)"
# A month with a name: 25 de jul. de 2016, Jul 25, 2016.
_NAME = r"([^\W\d_][^\d\s\[\]:,]{0,14})"
_DAY_AND_NAME = rf"(\d{{1,2}})[. ]{{0,2}}(?:de |d[’'])?{_NAME},? (?:de |del )?(\d{{4}})"
_NAME_AND_DAY = rf"{_NAME} (\d{{1,2}}),? (\d{{4}})"


class HeadPatterns(NamedTuple):
    """Expressions for heads with the same end, by what they begin with; the end is the last group."""

    date: re.Pattern[str]
    time: re.Pattern[str]
    day: re.Pattern[str]
    name: re.Pattern[str]


_BEFORE = rf"{_GAP}{_TIME}"
_AFTER_HEAD = rf"{_GAP}(\] ?|(?<=[^-–—]) ?[-–—~] |: )"
_AFTER_TIME = rf"{_NARROW_GAP}(, |: |\Z)"
_HEADS = HeadPatterns(
    re.compile(rf"\[?{_DATE}{_BEFORE}{_AFTER_HEAD}"),
    re.compile(rf"\[?{_TIME}{_GAP}{_DATE}{_AFTER_HEAD}"),
    re.compile(rf"\[?{_DAY_AND_NAME}{_BEFORE}{_AFTER_HEAD}"),
    re.compile(rf"\[?{_NAME_AND_DAY}{_BEFORE}{_AFTER_HEAD}"),
)
_TIMES = HeadPatterns(
    re.compile(rf"{_DATE}{_BEFORE}{_AFTER_TIME}"),
    re.compile(rf"{_TIME}{_GAP}{_DATE}{_AFTER_TIME}"),
    re.compile(rf"{_DAY_AND_NAME}{_BEFORE}{_AFTER_TIME}"),
    re.compile(rf"{_NAME_AND_DAY}{_BEFORE}{_AFTER_TIME}"),
)
# Only a blank before the author.
_AFTER_PLAIN = rf"{_NARROW_GAP}( )(?=[^\s:\d][^:\n]{{0,59}}: )"
_PLAIN_HEADS = HeadPatterns(
    re.compile(rf"{_DATE}{_BEFORE}{_AFTER_PLAIN}"),
    re.compile(rf"{_TIME}{_GAP}{_DATE}{_AFTER_PLAIN}"),
    re.compile(rf"{_DAY_AND_NAME}{_BEFORE}{_AFTER_PLAIN}"),
    re.compile(rf"{_NAME_AND_DAY}{_BEFORE}{_AFTER_PLAIN}"),
)
# Where in a line a number must be for it to begin with a date.
_MOST_BEFORE_DIGITS = 20
_SPACES = "\u202f\u00a0\u2009\u2007\u3000\u2002\u2003"
# Signs that mean the same in other scripts; each is replaced by one character.
_ALIKE = {"،": ",", "，": ",", "、": ",", "：": ":", "／": "/", "．": ".", "٫": ":", "－": "-", "‐": "-", "‑": "-"}
_SIGNS_OF_UNITS = frozenset("日일號号分분秒초")
# Quotation marks occur in notices, but not in names.
_QUOTES = frozenset('"“”«»„')


class Head(NamedTuple):
    """The numbers at the beginning of a line: three of the date in their order, and the time, ``hour`` from 0 to 23.

    ``separator`` stands between the first two. With ``is_local``, the line has digits or words of another script than
    Latin. ``has_half`` says that a word gave the half of the day, ``unknown`` is a word that may be one.
    """

    first: int
    second: int
    third: int
    hour: int
    minute: int
    seconds: int | None
    separator: str
    is_local: bool = False
    has_half: bool = False
    unknown: str = ""


@cache
def _characters() -> dict[int, str]:
    """Maps digits of all scripts, special spaces and signs to their plain characters."""
    digits = {code: str(unicodedata.digit(chr(code))) for code in range(0x80, 0x1FC00) if chr(code).isdecimal()}
    return digits | {ord(each): " " for each in _SPACES} | {ord(sign): plain for sign, plain in _ALIKE.items()}


@cache
def _halves() -> dict[str, tuple[int, int]]:
    """Maps each word for a part of the day to its hours: from, and before."""
    table = json.loads((Path(__file__).parent / "halves_of_day.json").read_text("utf-8"))["hours"]
    found: dict[str, tuple[int, int]] = {}
    for hours, listed in table.items():
        first, _dash, end = hours.partition("-")
        found |= {word: (int(first), int(end)) for word in listed.split()}
    return found


@cache
def _months() -> dict[str, int]:
    """Maps the name of each month to its number."""
    table = json.loads((Path(__file__).parent / "months.json").read_text("utf-8"))["months"]
    return {word: int(number) for number, listed in table.items() for word in listed.split()}


def plain_spaces(text: str) -> str:
    """Returns the text with plain spaces for special ones."""
    return text.translate({ord(each): " " for each in _SPACES})


def folded(word: str) -> str:
    """Returns a word in lower case, without spaces, dots and marks, as the table has it."""
    normal = unicodedata.normalize("NFKC", word).casefold()
    return "".join(each for each in normal if unicodedata.category(each)[0] in "LMN")


def head_and_rest(line: str) -> tuple[Head, str] | None:
    """Returns the head of a line that begins a message, and the rest of the line; None for other lines."""
    found = _split(line, _HEADS)
    if found is None or (found[1] == ": " and found[0].unknown):
        return _plain_head_and_rest(line)
    head, mark, rest = found
    is_bracketed = mark.startswith("]")
    if is_bracketed != line.lstrip(MARKS + " ").startswith("["):
        return None
    if mark == ": " and head.seconds is None and not author_and_text(rest)[0]:
        return None
    return head, rest.removeprefix("- ") if is_bracketed else rest


def _plain_head_and_rest(line: str) -> tuple[Head, str] | None:
    """Returns the same of a line with only a blank before the author; without seconds it is what somebody wrote."""
    head, _mark, rest = _split(line, _PLAIN_HEADS) or (None, "", "")
    is_known = head and head.seconds is not None and not head.unknown and folded(rest.split()[0]) not in _halves()
    return (head, rest) if head and is_known and author_and_text(rest)[0] else None


def time_and_rest(line: str) -> tuple[Head, str, str] | None:
    """Returns the date and time at the beginning of a line, the mark behind them (a comma, a colon, or nothing at the
    end of the line), and the rest of the line; None for other lines."""
    return None if line.startswith("[") else _split(line, _TIMES)


def _split(line: str, patterns: HeadPatterns) -> tuple[Head, str, str] | None:
    """Returns the head of a line, its end, and the rest of the line; None for other lines."""
    line = line.lstrip(MARKS + " ")
    if not (line[:1] == "[" or line[:1].isdecimal() or any(map(str.isdecimal, line[:_MOST_BEFORE_DIGITS]))):
        return None
    raw = line[:LONGEST_HEAD]
    # The places in the line of the characters that are no marks.
    kept = [place for place, each in enumerate(raw) if each not in MARKS]
    plain = "".join(raw[place] for place in kept).translate(_characters())
    match = _numbers(plain, patterns)
    if match is None:
        return None
    found, date_parts, time_parts, gaps = match
    end = kept[found.end() - 1] + 1
    head = _head(date_parts, time_parts, gaps)
    if head is None:
        return None
    is_local = head.is_local or not _has_plain_digits(raw[:end])
    return head._replace(is_local=is_local), found[found.lastindex or 0], line[end:]


_Parts = tuple[str, str, str, str]


def _numbers(
    plain: str, patterns: HeadPatterns
) -> tuple[re.Match[str], _Parts, tuple[str, ...], tuple[str, str]] | None:
    """Returns the match of a head, its date (in the order of ``Head``, with the separator as second), the parts of its
    time, and what stands before and after the time."""
    if found := patterns.date.match(plain):
        first, separator, second, third, before, *time, after, _end = found.groups()
        return found, (first, separator, second, third), tuple(time), (before, after)
    if found := patterns.time.match(plain):
        *time, before, first, separator, second, third, after, _end = found.groups()
        return found, (first, separator, second, third), tuple(time), (before, after)
    for pattern, (day, name) in ((patterns.day, (1, 2)), (patterns.name, (2, 1))):
        found = pattern.match(plain)
        month = _months().get(folded(found[name])) if found else None
        if found and month:
            date_parts = (found[3], YEAR_SIGNS[0], str(month), found[day])
            return found, date_parts, found.groups()[4:7], (found[4], found[8])
    return None


def _has_plain_digits(text: str) -> bool:
    return all(each.isascii() for each in text if each.isdecimal())


def _head(date_parts: _Parts, time_parts: tuple[str, ...], gaps: tuple[str, str]) -> Head | None:
    """Returns what the numbers and words of a head say; None if a word belongs to no date."""
    words = [word for gap in gaps for word in _words(gap)]
    half = folded("".join(words))
    if half and half not in _halves() and (len(words) > 1 or len(half) > LONGEST_UNKNOWN):
        return None
    hours = _halves().get(half)
    first, separator, second, third = date_parts
    hour, minute, seconds = time_parts
    # Some phones count the hours of a day from 1 to 24.
    hour = "0" if hour == "24" else hour
    return Head(
        int(first),
        int(second),
        int(third),
        _hour(int(hour), hours) if hours else int(hour),
        int(minute),
        int(seconds) if seconds else None,
        separator,
        any("LATIN" not in unicodedata.name(each, "") for each in half if each.isalpha()),
        hours is not None,
        "" if hours else half,
    )


def _words(gap: str) -> Iterator[str]:
    """Yields the words between numbers that may tell the half of the day."""
    for word in gap.replace(",", " ").split():
        bare = word.strip("".join(_SIGNS_OF_UNITS) + ".")
        if bare and bare.casefold() not in FILLERS and any(map(str.isalpha, bare)):
            yield word.lstrip("".join(_SIGNS_OF_UNITS))


def hour_of(hour: int, word: str) -> int:
    """Returns the hour from 0 to 23; ``word`` tells the half of the day, or is empty. Raises ValueError."""
    if not (half := folded(word)):
        return hour
    if half not in _halves():
        raise ValueError
    return _hour(hour, _halves()[half])


def month_of(name: str) -> int:
    """Returns the number of a month with a name. Raises ValueError."""
    if number := _months().get(folded(name)):
        return number
    raise ValueError


def _hour(hour: int, hours: tuple[int, int]) -> int:
    """Returns the hour that lies in, or nearest to, a part of the day; one after 12 o'clock is left as it is."""
    if hour > 12:
        return hour
    first, end = hours
    length = (end - first) % 24 or 24

    def away(candidate: int) -> int:
        after = (candidate - first) % 24
        return 0 if after < length else min(24 - after, after - length + 1)

    return min((hour % 12, hour % 12 + 12), key=away)


def date_of(year: int, month: int, day: int) -> date:
    """Returns the date in our calendar; Buddhist, Persian and Minguo years are known by their size.

    Raises ValueError when there is no such day.
    """
    latest = datetime.now(UTC).year + 1
    if year < 100:
        # Thai phones shorten 2566 to 66; there was no WhatsApp before 2009.
        year += 1957 if year + 2000 > latest and 2009 <= year + 1957 <= latest else 2000
    elif 80 <= year < 200:
        year += 1911
    elif 2400 <= year <= latest + 543:
        year -= 543
    elif 1350 <= year <= latest - 621:
        return _persian(year, month, day)
    return date(year, month, day)


def _persian(year: int, month: int, day: int) -> date:
    """Returns a date of the Persian calendar, by its cycle of 33 years, which holds from 1800 to 2256 by ours."""
    if not (1 <= month <= 12 and 1 <= day <= (31 if month < 7 else 30)):
        raise ValueError
    before = (month - 1) * 31 if month < 7 else (month - 7) * 30 + 186
    since = year + 1595
    return date.fromordinal(-356033 + 365 * since + since // 33 * 8 + (since % 33 + 3) // 4 + before + day)


def author_and_text(body: str) -> tuple[str, str]:
    """Returns author and text; the author of a notice is empty."""
    author, colon, text = body.partition(":")
    name = plain_spaces(author.strip(MARKS + " "))
    if not colon or not name or len(name) > LONGEST_AUTHOR or _QUOTES & set(name) or not _is_said(name, text):
        return "", body
    return name, text.removeprefix(" ")


def _is_said(name: str, text: str) -> bool:
    """Whether what stands behind a colon is a message. Some exports write no blank; addresses and times have none."""
    if text[:1] in ("", " ", "\n"):
        return True
    return not (text[0].isdecimal() or text[0] == "/") and len(name.split()) <= _MOST_WORDS_OF_NAME
