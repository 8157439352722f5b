"""KakaoTalk's exported chats: the texts of phones and of computers, and the table of Macs.

A phone writes date, time and author before each message (``2024년 5월 13일 오후 2:30, 지훈 : 응``), and notices
without an author. A computer writes a line for each day, and ``[지훈] [오후 2:30] 응``; its notices have no time and
get that of the message before them. A Mac writes CSV with the columns Date, User and Message. As in WhatsApp's texts,
messages have neither ids nor a time zone, and a person may be any of those who speak."""

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from functools import partial
from typing import NamedTuple

from django.utils.translation import gettext as _

from memoryapp.importers.format import Format, Hints, Reader, Records, Speaker, TextLayout, found_speaker
from memoryapp.importers.formats.messengers import whatsapp
from memoryapp.importers.formats.messengers.plain_text import AlikeTexts, text_lines
from memoryapp.importers.record import Clock, MessageRecord, Rejected, message
from memoryapp.importers.source import SourceFile
from memoryapp.importers.values import BadRecord

LINES_LOOKED_AT = 20
# The head of a text: who it is with, when it was saved, the name of the file.
_HEADING_LINES = 4
_HEADING = re.compile(r"카카오톡 대화|KakaoTalk Chats|^저장한 날짜 ?:|^Date Saved ?:|^Talk_[\d.]")
_TITLES = (re.compile(r"\A(.{1,200}?) ?(?:님과 )?카카오톡 대화"), re.compile(r"\AKakaoTalk Chats with (.{1,200})"))
_TABLE = ["Date", "User", "Message"]

_KOREAN_DAY = re.compile(r"(\d{4})년 (\d{1,2})월 (\d{1,2})일(?: [월화수목금토일]요일)?")
_ENGLISH_DAY = re.compile(r"[^\W\d_]{3,12}, ([^\W\d_]{3,12}) (\d{1,2}), (\d{4})")
_RULE = re.compile(r"-{3,} ([^-\n]{5,60}) -{3,}")
_SAID = re.compile(r"\[([^\n]{1,60}?)\] \[([^\d\[\]:]{0,12})(\d{1,2}):(\d{2})([^\d\[\]:]{0,12})\] ?")
# Notices of a computer's text, which stand on a line of their own.
_NOTICE = re.compile(
    r".{1,60}님(?:이|을|께서) .{0,80}(?:들어왔|나갔|초대했|내보냈|가렸)습니다\.?"
    r"|.{1,60} (?:joined|left) this chatroom\."
)


class KakaoMessage(NamedTuple):
    """A message; ``author`` is empty in a notice. ``at`` is the local time, None if the line does not say it."""

    line: int
    at: datetime | None
    author: str
    text: str


def recognises(beginning: str) -> bool:
    first = beginning.splitlines()[:LINES_LOOKED_AT]
    if any(_is_heading(number, line) for number, line in enumerate(first, start=1)) or _is_table(beginning):
        return True
    has_day = any(_RULE.fullmatch(line) and _day(line, follows_blank=True) for line in first)
    is_of_phone = any(begun.author for line in first if (begun := _of_phone(0, line)))
    return is_of_phone or (has_day and any(map(_SAID.match, first)))


def _is_heading(number: int, line: str) -> bool:
    # A message of WhatsApp may speak of KakaoTalk.
    return number <= _HEADING_LINES and bool(_HEADING.search(line)) and whatsapp.head_and_rest(line) is None


def _is_table(beginning: str) -> bool:
    return beginning.partition("\n")[0].strip().replace('"', "").split(",") == _TABLE


def entries(source: SourceFile) -> Iterator[KakaoMessage | Rejected]:
    """Yields the messages with all of their lines, and what belongs to none."""
    _number, first = next(text_lines(source), (0, ""))
    return _of_table(source) if _is_table(first) else _of_text(source)


def _of_table(source: SourceFile) -> Iterator[KakaoMessage | Rejected]:
    rows = csv.reader(f"{line}\n" for _number, line in text_lines(source))
    next(rows, None)
    while True:
        try:
            row = next(rows, None)
            if row is None:
                return
            if row:
                at, author, text = row
                yield KakaoMessage(rows.line_num, datetime.fromisoformat(at.strip()), author.strip(), text)
        except (ValueError, csv.Error):
            yield Rejected(rows.line_num, _("it is no row of date, user and message"))


def _of_text(source: SourceFile) -> Iterator[KakaoMessage | Rejected]:
    entry: KakaoMessage | None = None
    rest: list[str] = []
    day: date | None = None
    follows_blank = True
    for number, line in text_lines(source):
        new = _day(line, follows_blank=follows_blank)
        follows_blank = not line.strip()
        begun = None if new else _begun(number, line, day)
        if new or begun:
            if entry:
                yield _whole(entry, rest)
            day, entry, rest = new or day, begun, []
        elif entry:
            rest.append(line)
        elif line.strip() and not _is_heading(number, line):
            yield Rejected(number, _("it has no date: the file begins within a message"))
    if entry:
        yield _whole(entry, rest)


def _whole(entry: KakaoMessage, rest: list[str]) -> KakaoMessage:
    return entry._replace(text="\n".join([entry.text, *rest]).strip())


def _day(line: str, *, follows_blank: bool) -> date | None:
    """Returns the day that a line announces. A line between rules does so anywhere, others only after a blank one."""
    ruled = _RULE.fullmatch(line.strip())
    if not ruled and not follows_blank:
        return None
    plain = ruled[1].strip() if ruled else line.strip()
    try:
        if found := _KOREAN_DAY.fullmatch(plain):
            return whatsapp.date_of(*(int(part) for part in found.groups()))
        if found := _ENGLISH_DAY.fullmatch(plain):
            return whatsapp.date_of(int(found[3]), whatsapp.month_of(found[1]), int(found[2]))
        bare = whatsapp.time_and_rest(plain)
        return _time(bare[0]).date() if bare and not bare[1] and not bare[0].unknown else None
    except ValueError:
        return None


def _begun(number: int, line: str, day: date | None) -> KakaoMessage | None:
    """Returns the message that begins in a line, with its first line; None if none does."""
    if begun := _of_phone(number, line):
        return begun
    if found := _SAID.match(line):
        return _of_computer(number, found, day)
    return KakaoMessage(number, None, "", line) if day and _NOTICE.fullmatch(line) else None


def _of_phone(number: int, line: str) -> KakaoMessage | None:
    found = whatsapp.time_and_rest(line)
    if not found or not found[1] or found[0].unknown:
        return None
    head, mark, rest = found
    author, colon, text = rest.partition(" :")
    is_said = mark == ", " and colon and text[:1] in ("", " ") and 0 < len(author.strip()) <= whatsapp.LONGEST_AUTHOR
    try:
        at = _time(head)
        return KakaoMessage(number, at, *((author.strip(), text.removeprefix(" ")) if is_said else ("", rest)))
    except ValueError:
        return None


def _of_computer(number: int, found: re.Match[str], day: date | None) -> KakaoMessage | None:
    author, before, hour, minute, after = found.groups()
    text = found.string[found.end() :]
    try:
        at = datetime(1, 1, 1, whatsapp.hour_of(int(hour), f"{before}{after}"), int(minute))
    except ValueError:
        return None
    return KakaoMessage(number, datetime.combine(day, at.time()) if day else None, author, text)


def _time(head: whatsapp.Head) -> datetime:
    """Returns the local time; years come first except in other languages' short dates. Raises ValueError."""
    parts = head[:3] if head.separator in whatsapp.SIGNS_OF_YEARS or head.first > 31 else head[2::-1]
    day = whatsapp.date_of(*parts)
    return datetime(day.year, day.month, day.day, head.hour, head.minute, head.seconds or 0)


def _title(source: SourceFile) -> str:
    """Returns whom the chat is with, as its first line says; empty if it does not."""
    _number, first = next(text_lines(source), (0, ""))
    return next((found[1].strip() for title in _TITLES if (found := title.search(first))), "")


def read(source: SourceFile, title: str, me: str, clock: Clock) -> Records:
    """Yields the messages of the chat, in order."""
    alike = AlikeTexts()
    for entry in entries(source):
        try:
            yield entry if isinstance(entry, Rejected) else _record(entry, title, me, alike, clock)
        except BadRecord as error:
            yield Rejected(entry.line, str(error))


def _record(entry: KakaoMessage, title: str, me: str, alike: AlikeTexts, clock: Clock) -> MessageRecord:
    sent_at = clock.read(entry.at.replace(tzinfo=clock.zone).isoformat() if entry.at else None)
    digest = hashlib.sha256(f"{entry.author}\n{entry.text}".encode("utf-8", "replace")).hexdigest()[:16]
    local = entry.at or sent_at.astimezone(clock.zone).replace(tzinfo=None)
    key, count = f"kakaotalk:{local.isoformat()}:{digest}", alike.count(local, digest)
    role = "user" if entry.author == me and me else "peer"
    return message(
        external_id=key if count == 1 else f"{key}:{count}",
        role=role if entry.author else "system",
        author=entry.author,
        sent_at=sent_at,
        text=entry.text,
        session=f"kakaotalk:{title}"[:200],
        metadata={**({"channel": title} if title else {}), **clock.mark()},
        line=entry.line,
    )


def open_text(source: SourceFile, hints: Hints) -> Reader:
    """Returns the reader of a chat. Raises UnreadableFile and UnknownSpeaker."""
    found = (entry.author for entry in entries(source) if isinstance(entry, KakaoMessage) and entry.author)
    named: Counter[Speaker] = Counter((author,) for author in found)
    title = _title(source)
    me = "".join(found_speaker(named, hints, title))
    return Reader(partial(read, source, title, me))


FORMAT = Format(
    "kakaotalk",
    "KakaoTalk",
    (TextLayout(recognises, open_text, ("KakaoTalk*.txt", "KakaoTalk*.csv", "Talk_*.txt")),),
    asks_who=True,
    asks_zone=True,
)
