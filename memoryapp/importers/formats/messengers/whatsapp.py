"""WhatsApp's exported chats: a text with one line a message, and dates in the language of the phone.

Lines have neither ids nor a time zone, and only all of them together show the order of day and month; so the file is
scanned before it is read. The id of a message is made from its minute (or second) and its text, with a number for equal
messages, so it is the same in every export of the chat; an edited message is another one. A person is asked for the
time zone of the phone. In the hour that comes twice at the end of summer time, the first one is assumed.

The file does not say who the user is, either. It is the speaker with the name of the chat user; or, if the file is
named after one of two speakers, the other one; or the speaker whom a person names."""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from django.utils.translation import gettext as _

from memoryapp.importers.format import Format, Hints, Reader, Speaker, TextLayout, found_speaker
from memoryapp.importers.formats.messengers.plain_text import AlikeTexts, text_lines
from memoryapp.importers.record import MOST_TEXT, Clock, MessageRecord, Rejected, UnknownOrder, UnreadableFile, message
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord, quote

# The head of a line in WhatsApp's export: date and time as the phone's language writes them.
#
# Known are: digits of any script; dates with ``.``, ``/``, ``-`` or the signs for year, month and day; the time
# before or after the date; the half of the day before or after the time, in the words of every language of CLDR, of
# which ``halves_of_day.json`` is a table (made from Babel 2.18); months with names, of which ``months.json`` is one;
# marks for right-to-left text anywhere; and three ends of a head: ``]``, a dash, and in old exports of iPhones a
# colon. KakaoTalk writes dates alike (see ``kakaotalk``), with other ends.

LONGEST_AUTHOR = 60
_MOST_WORDS_OF_NAME = 3
# A head is within the first characters of a line.
LONGEST_HEAD = 120
# What may stand beside a time and says nothing about the half of the day.
_FILLERS = """
à a às as at al alle kl klo uhr um om ore ora orë ob o u v в у г год р ч ч. години ב בשעה lúc giờ น นาฬิกา kell saat
pukul jam
"""
FILLERS = frozenset(_FILLERS.split())
# A word beside the time that nobody knows must be short, or the line is somebody's text that has a date in it.
LONGEST_UNKNOWN = 6
MARKS_OF_DIRECTION = "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\ufeff"
SIGNS_OF_YEARS = "年년"

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
_DATED = (rf"{_DATE}{_BEFORE}", rf"{_TIME}{_GAP}{_DATE}", rf"{_DAY_AND_NAME}{_BEFORE}", rf"{_NAME_AND_DAY}{_BEFORE}")
_HEADS = HeadPatterns(*[re.compile(rf"\[?{dated}{_AFTER_HEAD}") for dated in _DATED])
_TIMES = HeadPatterns(*[re.compile(f"{dated}{_AFTER_TIME}") for dated in _DATED])
# Only a blank before the author.
_AFTER_PLAIN = rf"{_NARROW_GAP}( )(?=[^\s:\d][^:\n]{{0,59}}: )"
_PLAIN_HEADS = HeadPatterns(*[re.compile(f"{dated}{_AFTER_PLAIN}") for dated in _DATED])
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
    Latin. ``has_half`` says that a word gave the half of the day, ``unknown`` is a word that may be one."""

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
    if is_bracketed != line.lstrip(MARKS_OF_DIRECTION + " ").startswith("["):
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
    line = line.lstrip(MARKS_OF_DIRECTION + " ")
    if not (line[:1] == "[" or line[:1].isdecimal() or any(map(str.isdecimal, line[:_MOST_BEFORE_DIGITS]))):
        return None
    raw = line[:LONGEST_HEAD]
    # The places in the line of the characters that are no marks.
    kept = [place for place, each in enumerate(raw) if each not in MARKS_OF_DIRECTION]
    plain = "".join(raw[place] for place in kept).translate(_characters())
    match = _numbers(plain, patterns)
    if match is None:
        return None
    found, date_parts, time_parts, gaps = match
    end = kept[found.end() - 1] + 1
    head = _head(date_parts, time_parts, gaps)
    if head is None:
        return None
    is_local = head.is_local or any(each.isdecimal() and not each.isascii() for each in raw[:end])
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
            date_parts = (found[3], SIGNS_OF_YEARS[0], str(month), found[day])
            return found, date_parts, found.groups()[4:7], (found[4], found[8])
    return None


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
    """Returns the date in our calendar; Buddhist, Persian and Minguo years are known by their size. Raises ValueError
    when there is no such day."""
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
    name = plain_spaces(author.strip(MARKS_OF_DIRECTION + " "))
    if not colon or not name or len(name) > LONGEST_AUTHOR or _QUOTES & set(name) or not _is_said(name, text):
        return "", body
    return name, text.removeprefix(" ")


def _is_said(name: str, text: str) -> bool:
    """Whether what stands behind a colon is a message. Some exports write no blank; addresses and times have none."""
    if text[:1] in ("", " ", "\n"):
        return True
    return not (text[0].isdecimal() or text[0] == "/") and len(name.split()) <= _MOST_WORDS_OF_NAME


LINES_LOOKED_AT = 20
ORDERS = ("dmy", "mdy", "ymd", "ydm")
# The phone's clock or time zone may be ahead of ours.
_CLOCKS_DIFFER = timedelta(days=2)
# Dates that are spread over more than this, though another order has them within days, are in that order.
_SPREAD = timedelta(days=300)
_DATES_FOR_A_YEAR = 2

_MEDIA = re.compile(r"<[^<>:]{3,60}>")
_ATTACHED = re.compile(r"<[^<>:]{2,30}: ([^<>]{1,200})>")
# An iPhone writes the file behind the words that were sent with it.
_ATTACHED_BEHIND = re.compile(r" ?\u200e<[^<>:]{2,30}: ([^<>]{1,200})>\Z")
_FILE = re.compile(r"([^\s()]{1,200}\.\w{2,4}) (?:\([^()]{3,40}\)|<[^<>:]{3,40}>)")
# A name with spaces is only known by the sign before it, because people write of files, too.
_MARKED_FILE = re.compile(r"\u200e([^()<>\n]{1,200}\.\w{2,4}) \([^()]{3,40}\)")
_EDITED = re.compile(r"\u200e<[^<>:]{5,60}>\Z")
# An Android phone writes no sign before the mark, so it is known by its word in the languages of many.
_EDITED_WORD = re.compile(
    r" <[^<>:\n]{0,40}(?:edit|édit|bearbeit|modific|modifié|bewerkt|redig|muokatt|edytow|düzenlen|измен|отредакт"
    r"|змін|upraven|szerkeszt|επεξεργ|diedit|chỉnh sửa|แก้ไข|編集|编辑|編輯|수정|편집|تعديل|ویرایش|נערכ|संपादित)"
    r"[^<>:\n]{0,40}>\Z",
    re.IGNORECASE,
)
_PREFIXES = (" with ", " - ", " с ", " mit ", " con ", " avec ", " com ", " met ")
_COPY = re.compile(r" ?\(\d{1,3}\)\Z")


class UndatedMessage(NamedTuple):
    """A message before its date is known; ``author`` is empty in a notice. ``is_marked`` says that the line begins with
    the mark that stands before what somebody sent without words."""

    line: int
    head: Head
    author: str
    text: str
    is_marked: bool = False


@dataclass(slots=True)
class WhatsAppChat:
    """The result of the scan: the order of dates, and how often each speaker speaks; ``me`` is one of them, or empty.

    For each order, ``backwards`` counts how often time would run backwards, ``impossible`` the dates that do not exist,
    ``earliest`` and ``latest`` are the first and the last time. ``unclear`` is a date with two meanings, ``unknown`` a
    word beside a time, and ``has_late_hours`` says that hours are counted to 24."""

    title: str = ""
    backwards: Counter[str] = field(default_factory=Counter)
    speakers: Counter[str] = field(default_factory=Counter)
    order: str = "dmy"
    me: str = ""
    earliest: dict[str, datetime] = field(default_factory=dict)
    latest: dict[str, datetime] = field(default_factory=dict)
    impossible: Counter[str] = field(default_factory=Counter)
    dates: int = 0
    unclear: str = ""
    unknown: str = ""
    has_late_hours: bool = False


def recognises(beginning: str) -> bool:
    """Whether one of the first lines of a text is a message."""
    return any(head_and_rest(line) for line in beginning.splitlines()[:LINES_LOOKED_AT])


def scan(source: SourceFile, hints: Hints) -> WhatsAppChat:
    """Returns the chat in the file. Raises UnknownOrder, UnknownSpeaker, UnreadableFile."""
    chat = WhatsAppChat(_title(hints.name or source.member or source.path.name))
    for number, entry in enumerate(_entries(source)):
        if entry.author and not (number == 0 and entry.text.startswith("\u200e")):
            chat.speakers[entry.author] += entry.is_marked or not entry.text.startswith("\u200e")
        _weigh(chat, entry.head)
    if chat.unknown and not chat.has_late_hours:
        raise UnreadableFile(
            _(
                "%(path)s has the word “%(word)s” beside its times, which may mean morning or afternoon: export the "
                "chat again with the phone in another language, or with 24 hours."
            )
            % {"path": source.name, "word": chat.unknown}
        )
    chat.order = hints.dates or _date_order(chat, source.name)
    chat.speakers = +chat.speakers
    named: Counter[Speaker] = Counter({(name,): count for name, count in chat.speakers.items()})
    chat.me = "".join(found_speaker(named, hints, chat.title))
    return chat


def _weigh(chat: WhatsAppChat, head: Head) -> None:
    """Counts the orders of day, month and year that this date excludes, and those in which time runs backwards."""
    chat.dates += 1
    chat.unknown = chat.unknown or head.unknown
    chat.has_late_hours = chat.has_late_hours or (not head.has_half and (head.hour > 12 or head.hour == 0))
    if head.separator == "/" and not head.is_local and max(head.first, head.second) <= 12 and head.first != head.second:
        chat.unclear = chat.unclear or f"{head.first}/{head.second}/{head.third}"
    now = datetime.now(UTC).replace(tzinfo=None) + _CLOCKS_DIFFER
    for order in ORDERS:
        try:
            at = _time(head, order)
        except ValueError:
            at = None
        if at is None or at > now:
            chat.impossible[order] += 1
            continue
        chat.earliest.setdefault(order, at)
        last = chat.latest.get(order)
        chat.backwards[order] += bool(last and at < last)
        chat.latest[order] = at


def _date_order(chat: WhatsAppChat, name: str) -> str:
    """Returns the order in which most dates are valid and run forwards.

    An order that begins with the year is considered only if at least half of the dates are invalid in the others, or
    if they run backwards or are spread over years in the usual one, where they run forwards in a hundredth of the time.
    Dates with slashes are written with the month first in the United States and with the day first nearly everywhere
    else; if nothing in the file decides between them, a person does. Raises UnknownOrder."""
    usual, other = ORDERS[:2]
    if 2 * min(chat.impossible[usual], chat.impossible[other]) >= chat.dates or _begins_with_year(chat):
        usual, other = ORDERS[2:]
    against = {order: (chat.impossible[order], chat.backwards[order]) for order in (usual, other)}
    if chat.unclear and against[usual] == against[other] and usual == ORDERS[0]:
        raise UnknownOrder(name, chat.unclear)
    return min(against, key=lambda order: against[order])


def _begins_with_year(chat: WhatsAppChat) -> bool:
    """Whether dates such as 24. 7. 25. make sense only if their first number is the year."""
    usual, other, year_first, _last = ORDERS
    if chat.impossible[year_first] or chat.backwards[year_first] or chat.dates < _DATES_FOR_A_YEAR:
        return False
    span = chat.latest[year_first] - chat.earliest[year_first]
    return all(
        chat.impossible[order]
        or chat.backwards[order]
        or chat.latest[order] - chat.earliest[order] > max(100 * span, _SPREAD)
        for order in (usual, other)
    )


def _title(name: str) -> str:
    """Returns the other speaker or the group from a name that WhatsApp gives, as ``WhatsApp Chat with Boris.txt``."""
    stem = _COPY.sub("", name.rpartition("/")[2].rpartition(".")[0])
    if "WhatsApp" not in stem:
        return ""
    return next((after.strip() for mark in _PREFIXES if (after := stem.partition(mark)[2])), "")


# What an iPhone marks and writes under a speaker's name, though the program says it: calls, and notices of encryption.
_NOTICE = re.compile(
    r"\u200e(?:(?:(?:missed|silenced|declined) )?(?:group )?(?:voice|video) call\b"
    r"|(?:(?:пропущенный|отклон[её]нный) )?(?:групповой )?(?:аудио|видео)?звонок\b"
    r"|your security code |messages (?:and calls|to this (?:chat|group)) |код безопасности |сообщения и звонки )",
    re.IGNORECASE,
)


def read(source: SourceFile, chat: WhatsAppChat, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    alike = AlikeTexts()
    for number in _undated(source):
        yield Rejected(number, _("it has no date: the file begins within a message"))
    for number, entry in enumerate(_entries(source)):
        try:
            yield _record(entry, chat, alike, clock, is_notice=number == 0 and entry.text.startswith("\u200e"))
        except BadRecord as error:
            yield Rejected(entry.line, str(error))


def _record(
    entry: UndatedMessage, chat: WhatsAppChat, alike: AlikeTexts, clock: Clock, *, is_notice: bool
) -> MessageRecord:
    text, details = _text(entry.text)
    try:
        at = _time(entry.head, chat.order)
    except ValueError:
        date = "/".join(str(part) for part in entry.head[:3])
        raise BadRecord(_("%(value)s is no date in the order of the others") % {"value": quote(date)}) from None
    is_notice = is_notice or entry.author not in chat.speakers or _NOTICE.match(entry.text) is not None
    digest = hashlib.sha256(entry.text.encode("utf-8", "replace")).hexdigest()[:16]
    key, count = f"whatsapp:{at.isoformat()}:{digest}", alike.count(at, digest)
    role = "user" if entry.author == chat.me and chat.me else "peer"
    return message(
        user="",
        external_id=key if count == 1 else f"{key}:{count}",
        role="system" if is_notice else role,
        author="" if is_notice else entry.author,
        sent_at=clock.read(at.replace(tzinfo=clock.zone).isoformat()),
        text=text,
        session=f"whatsapp:{chat.title}"[:200],
        metadata={**({"channel": chat.title} if chat.title else {}), **details},
        line=entry.line,
    )


def _text(raw: str) -> tuple[str, dict[str, bool]]:
    """Returns the text, with marks for media, and metadata that say whether it was edited."""
    edited = _EDITED.search(raw) or _EDITED_WORD.search(raw)
    raw = raw[: edited.start()] if edited else raw
    text = plain_spaces(raw).strip(MARKS_OF_DIRECTION + " \n").replace("\n\u200e", "\n")
    first, _newline, caption = text.partition("\n")
    marked = _MARKED_FILE.fullmatch(raw.partition("\n")[0].rstrip())
    if found := _ATTACHED.fullmatch(first) or marked or _FILE.fullmatch(first.strip(MARKS_OF_DIRECTION)):
        text = f"[file: {found[1].strip(MARKS_OF_DIRECTION)}]\n{caption}".strip()
    elif found := _ATTACHED_BEHIND.search(text):
        text = f"[file: {found[1].strip(MARKS_OF_DIRECTION)}]\n{text[: found.start()]}".strip(
            MARKS_OF_DIRECTION + " \n"
        )
    elif not text or _MEDIA.fullmatch(text):
        text = "[media]"
    return text, {"edited": True} if edited else {}


def _time(head: Head, order: str) -> datetime:
    """Returns the local time. Raises ValueError when the day or hour does not exist."""
    parts = dict(zip("ymd" if head.separator in SIGNS_OF_YEARS else order, head[:3], strict=True))
    day = date_of(parts["y"], parts["m"], parts["d"])
    return datetime(day.year, day.month, day.day, head.hour, head.minute, head.seconds or 0)


def _undated(source: SourceFile) -> Iterator[int]:
    """Yields the numbers of the lines before the first message; an export that was cut begins with some."""
    for number, line in takewhile(lambda each: head_and_rest(each[1]) is None, text_lines(source)):
        if line.strip(MARKS_OF_DIRECTION + " "):
            yield number


def _entries(source: SourceFile) -> Iterator[UndatedMessage]:
    """Yields messages with all of their lines. Raises UnreadableFile when the text is not UTF-8."""
    entry: UndatedMessage | None = None
    rest: list[str] = []
    size = 0
    for number, line in text_lines(source):
        found = head_and_rest(line)
        if found is None:
            # A message that is too long is rejected as a whole, so the rest of it is not kept.
            if entry and size <= MOST_TEXT:
                rest.append(line)
                size += len(line) + 1
            continue
        if entry:
            yield entry._replace(text="\n".join([entry.text, *rest]))
        head, body = found
        author, text = author_and_text(body)
        entry, rest, size = UndatedMessage(number, head, author, text, line.startswith("\u200e")), [], len(text)
    if entry:
        yield entry._replace(text="\n".join([entry.text, *rest]))


def open_text(source: SourceFile, hints: Hints) -> Reader:
    """Returns the reader of a chat. Raises UnreadableFile."""
    return Reader(partial(read, source, scan(source, hints)))


FORMAT = Format(
    "whatsapp",
    "WhatsApp",
    (TextLayout(recognises, open_text, ("_chat.txt", "*WhatsApp*.txt")),),
    asks_who=True,
    asks_zone=True,
)
