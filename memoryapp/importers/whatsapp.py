"""WhatsApp's exported chats: a text with one line a message, and dates in the language of the phone.

Lines have neither ids nor a time zone, and only all of them together show the order of day and month; so the file is
scanned before it is read. The id of a message is made from its minute (or second) and its text, with a number for equal
messages, so it is the same in every export of the chat; an edited message is another one. A person is asked for the
time zone of the phone. In the hour that comes twice at the end of summer time, the first one is assumed.

The file does not say who the user is, either. It is the speaker with the name of the chat user; or, if the file is
named after one of two speakers, the other one; or the speaker whom a person names.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django.utils.translation import gettext as _

from memoryapp.importers.format import NOBODY, Format, Hints, Reader, TextLayout
from memoryapp.importers.record import (
    MOST_TEXT,
    BadRecord,
    Clock,
    MessageRecord,
    Rejected,
    UnknownSpeaker,
    message,
    quote,
)
from memoryapp.importers.source import SourceFile, not_utf8

LINES_LOOKED_AT = 20
LONGEST_AUTHOR = 60
ORDERS = ("dmy", "mdy", "ymd", "ydm")
# Minutes whose messages are remembered; enough for the hour that comes twice at the end of summer time.
MOST_MINUTES = 10_000

# Date, time, perhaps AM or PM, then the end of the head. Special spaces must be replaced by plain ones first.
_HEAD = re.compile(
    r"\[?(\d{1,4})([./-]) ?(\d{1,2})[./-] ?(\d{1,4})\.?,? (?:[^\W\d_]{1,5}\.? )?"
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?: ?([AaPp])\. ?[Mm]\.?| ?([AaPp])[Mm])?(\]| -) ?"
)
_MARKS = "\u200e\u200f\u202a\u202c\ufeff"
_SPACES = str.maketrans({"\u202f": " ", "\u00a0": " ", "\u2009": " "})
_MEDIA = re.compile(r"<[^<>:]{3,60}>")
_ATTACHED = re.compile(r"<[^<>:]{2,30}: ([^<>]{1,200})>")
_FILE = re.compile(r"([^\s()]{1,200}\.\w{2,4}) \([^()]{3,40}\)")
_EDITED = re.compile(r"\u200e<[^<>:]{5,60}>\Z")
# Quotation marks occur in notices, but not in names.
_QUOTES = frozenset('"“”«»„')
_PREFIXES = (" with ", " - ", " с ", " mit ", " con ", " avec ", " com ", " met ")
_COPY = re.compile(r" ?\(\d{1,3}\)\Z")


class Head(NamedTuple):
    """The numbers at the beginning of a line, in order: three of the date, the time, and ``a``, ``p`` or empty."""

    first: int
    second: int
    third: int
    hour: int
    minute: int
    seconds: int | None
    half: str
    separator: str


class UndatedMessage(NamedTuple):
    """A message before its date is known; ``author`` is empty in a notice."""

    line: int
    head: Head
    author: str
    text: str


@dataclass(slots=True)
class WhatsAppChat:
    """The result of the scan: the order of dates, and how often each speaker speaks; ``me`` is one of them, or empty.

    For each order, ``backwards`` counts how often time would run backwards, and ``latest`` is the last time.
    """

    title: str = ""
    backwards: Counter[str] = field(default_factory=Counter)
    speakers: Counter[str] = field(default_factory=Counter)
    order: str = "dmy"
    me: str = ""
    latest: dict[str, datetime] = field(default_factory=dict)


class _Alike:
    """Counts messages with equal texts in each minute; it remembers the latest ``MOST_MINUTES``."""

    def __init__(self) -> None:
        self._minutes: dict[datetime, Counter[str]] = {}

    def count(self, at: datetime, digest: str) -> int:
        words = self._minutes.setdefault(at, Counter())
        if len(self._minutes) > MOST_MINUTES:
            del self._minutes[next(iter(self._minutes))]
        words[digest] += 1
        return words[digest]


def recognises(beginning: str) -> bool:
    """Whether one of the first lines of a text is a message."""
    return any(_head_and_rest(line) for line in beginning.splitlines()[:LINES_LOOKED_AT])


def scan(source: SourceFile, owner: str, me: str, name: str = "") -> WhatsAppChat:
    """Returns the chat in the file; ``name`` is what people call the file. Raises UnknownSpeaker."""
    chat = WhatsAppChat(_title(name or source.member or source.path.name))
    impossible: Counter[str] = Counter()
    is_american, dates = False, 0
    for number, entry in enumerate(_entries(source)):
        if entry.author and not (number == 0 and entry.text.startswith("\u200e")):
            chat.speakers[entry.author] += not entry.text.startswith("\u200e")
        is_american = is_american or (bool(entry.head.half) and entry.head.separator == "/" and entry.head.third < 100)
        _weigh(chat, entry.head, impossible)
        dates += 1
    chat.order = _date_order(chat, impossible, dates, is_american=is_american)
    chat.speakers = +chat.speakers
    chat.me = _me(chat, owner, me)
    return chat


def _weigh(chat: WhatsAppChat, head: Head, impossible: Counter[str]) -> None:
    """Counts the orders of day, month and year that this date excludes, and those in which time runs backwards."""
    for order in ORDERS:
        try:
            at = _time(head, order)
        except ValueError:
            impossible[order] += 1
            continue
        last = chat.latest.get(order)
        chat.backwards[order] += bool(last and at < last)
        chat.latest[order] = at


def _date_order(chat: WhatsAppChat, impossible: Counter[str], dates: int, *, is_american: bool) -> str:
    """Returns the order in which most dates are valid and run forwards; the usual order if several fit.

    An order that begins with the year is considered only if at least half of the dates are invalid in the others.
    """
    usual, other = (ORDERS[1], ORDERS[0]) if is_american else ORDERS[:2]
    known = (usual, other) if 2 * min(impossible[usual], impossible[other]) < dates else ORDERS[2:]
    return min(known, key=lambda order: (impossible[order], chat.backwards[order]))


def _me(chat: WhatsAppChat, owner: str, me: str) -> str:
    """Returns the speaker who is the user; empty for none. Raises UnknownSpeaker."""
    if me == NOBODY:
        return ""
    for wanted in (me,) if me else (owner,):
        found = next((name for name in chat.speakers if name.casefold() == wanted.casefold()), "")
        if found:
            return found
    others = [name for name in chat.speakers if name.casefold() != chat.title.casefold()]
    if not me and len(chat.speakers) == 2 and len(others) == 1:
        return others[0]
    if not chat.speakers:
        return ""
    sentence = (
        _("Nobody in this file is “%(name)s”.") % {"name": me} if me else _("The chat does not tell who the user is.")
    )
    raise UnknownSpeaker(sentence, [name for name, _count in chat.speakers.most_common()])


def _title(name: str) -> str:
    """Returns the other speaker or the group from a name that WhatsApp gives, as ``WhatsApp Chat with Boris.txt``."""
    stem = _COPY.sub("", name.rpartition("/")[2].rpartition(".")[0])
    if "WhatsApp" not in stem:
        return ""
    return next((after.strip() for mark in _PREFIXES if (after := stem.partition(mark)[2])), "")


def read(source: SourceFile, chat: WhatsAppChat, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of the chat, in order."""
    alike = _Alike()
    for number, entry in enumerate(_entries(source)):
        try:
            yield _record(entry, chat, alike, clock, is_notice=number == 0 and entry.text.startswith("\u200e"))
        except BadRecord as error:
            yield Rejected(entry.line, str(error))


def _record(
    entry: UndatedMessage, chat: WhatsAppChat, alike: _Alike, clock: Clock, *, is_notice: bool
) -> MessageRecord:
    text, details = _text(entry.text)
    try:
        at = _time(entry.head, chat.order)
    except ValueError:
        date = "/".join(str(part) for part in entry.head[:3])
        raise BadRecord(_("%(value)s is no date in the order of the others") % {"value": quote(date)}) from None
    is_notice = is_notice or entry.author not in chat.speakers
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
    edited = _EDITED.search(raw)
    raw = raw[: edited.start()] if edited else raw
    text = raw.translate(_SPACES).strip(_MARKS + " \n")
    first, _newline, caption = text.partition("\n")
    if found := _ATTACHED.fullmatch(first) or _FILE.fullmatch(first.strip(_MARKS)):
        text = f"[file: {found[1].strip(_MARKS)}]\n{caption}".strip()
    elif not text or _MEDIA.fullmatch(text):
        text = "[media]"
    return text, {"edited": True} if edited else {}


def _time(head: Head, order: str) -> datetime:
    """Returns the local time. Raises ValueError when the day or hour does not exist."""
    parts = dict(zip(order, head[:3], strict=True))
    year = parts["y"] if parts["y"] >= 100 else 2000 + parts["y"]
    hour = head.hour
    if head.half:
        hour = hour % 12 + (12 if head.half == "p" else 0)
    return datetime(year, parts["m"], parts["d"], hour, head.minute, head.seconds or 0)


def _entries(source: SourceFile) -> Iterator[UndatedMessage]:
    """Yields messages with all of their lines. Raises UnreadableFile when the text is not UTF-8."""
    entry: UndatedMessage | None = None
    rest: list[str] = []
    size = 0
    for number, line in _lines(source):
        found = _head_and_rest(line)
        if found is None:
            # A message that is too long is rejected as a whole, so the rest of it is not kept.
            if entry and size <= MOST_TEXT:
                rest.append(line)
                size += len(line) + 1
            continue
        if entry:
            yield entry._replace(text="\n".join([entry.text, *rest]))
        head, body = found
        author, text = _author_and_text(body)
        entry, rest, size = UndatedMessage(number, head, author, text), [], len(text)
    if entry:
        yield entry._replace(text="\n".join([entry.text, *rest]))


def _lines(source: SourceFile) -> Iterator[tuple[int, str]]:
    with source.opened() as file, io.TextIOWrapper(file, "utf-8", newline=None) as text:
        number = 0
        try:
            while line := text.readline(MOST_TEXT + 2):
                number += 1
                yield number, line.rstrip("\n")
        except UnicodeDecodeError as fault:
            raise not_utf8(source.name, fault, _("from line %(number)s on") % {"number": number + 1}) from None


def _head_and_rest(line: str) -> tuple[Head, str] | None:
    """Returns the head of a line that begins a message, and the rest of the line; None for other lines."""
    plain = line.lstrip(_MARKS)
    if not plain[:2].lstrip("[").isdigit() and not plain[:1].isdigit():
        return None
    found = _HEAD.match(plain.translate(_SPACES))
    if not found or (found[10] == "]") != plain.startswith("["):
        return None
    first, second, third, hour, minute = (int(found[place]) for place in (1, 3, 4, 5, 6))
    half = (found[8] or found[9] or "").lower()
    head = Head(first, second, third, hour, minute, int(found[7]) if found[7] else None, half, found[2])
    # Each character is replaced by one character, so positions are the same in both.
    return head, plain[found.end() :]


def _author_and_text(body: str) -> tuple[str, str]:
    """Returns author and text; the author of a notice is empty."""
    author, colon, text = body.partition(":")
    name = author.strip(_MARKS + " ").translate(_SPACES)
    if not colon or not name or len(name) > LONGEST_AUTHOR or _QUOTES & set(name) or text[:1] not in ("", " ", "\n"):
        return "", body
    return name, text.removeprefix(" ")


def open_text(source: SourceFile, hints: Hints) -> Reader:
    """Returns the reader of a chat. Raises UnknownSpeaker."""
    return Reader(partial(read, source, scan(source, hints.owner, hints.me, hints.name)))


FORMAT = Format(
    "whatsapp",
    "WhatsApp",
    (TextLayout(recognises, open_text, ("_chat.txt", "*WhatsApp*.txt")),),
    asks_who=True,
    asks_zone=True,
)
