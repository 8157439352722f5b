"""WhatsApp's exported chats: text, a line a message, written as the phone's language writes dates.

Lines have neither ids nor a time zone, and the order of day and month has to be seen from all of them; so the file is
looked through before it is read. A message is known by its minute (or second) and its words, and where these are the
same by how many came before: the same in every export of the chat, though an edited message is another one. In which
zone the phone was the importer is asked; of an hour that comes twice, at the end of summer time, the first is meant.
Whose memory it is the file does not tell either: the user is who bears the chat user's own name, or who is left where
the name of the file is that of the other one, or whom the importer names.
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
    shown,
)
from memoryapp.importers.source import SourceFile, not_utf8

LINES_LOOKED_AT = 20
LONGEST_AUTHOR = 60
ORDERS = ("dmy", "mdy", "ymd", "ydm")
# An hour that comes twice, at the end of summer time, is within them.
MOST_MINUTES = 10_000

# Date, time, perhaps AM or PM, then what ends the head; after the spaces of phones were made plain ones.
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
# What a notice quotes and no name has.
_QUOTES = frozenset('"“”«»„')
_PREFIXES = (" with ", " - ", " с ", " mit ", " con ", " avec ", " com ", " met ")
_COPY = re.compile(r" ?\(\d{1,3}\)\Z")


class Head(NamedTuple):
    """The numbers a line begins with, as they stand: three of the date, the time, and ``a``, ``p`` or nothing."""

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
    """What looking through found: in which order dates are, and who speaks how often; ``me`` is one of them.

    ``backwards`` counts for each order how often time would run so, ``latest`` is the last time in it.
    """

    title: str = ""
    backwards: Counter[str] = field(default_factory=Counter)
    speakers: Counter[str] = field(default_factory=Counter)
    order: str = "dmy"
    me: str = ""
    latest: dict[str, datetime] = field(default_factory=dict)


class _Alike:
    """How many messages of the same words a minute had so far; remembered for some hundred minutes."""

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
    return any(_split(line) for line in beginning.splitlines()[:LINES_LOOKED_AT])


def scan(source: SourceFile, owner: str, me: str, name: str = "") -> WhatsAppChat:
    """The chat in the file; ``name`` is what people call it. Raises UnknownSpeaker when ``me`` has to be named."""
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
    """Which orders of day, month and year this date rules out, and in which ones time would run backwards."""
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
    """The order in which most dates are dates, and run forwards; where both do, the usual one.

    Two digits of a year come first only where days cannot.
    """
    usual, other = (ORDERS[1], ORDERS[0]) if is_american else ORDERS[:2]
    known = (usual, other) if 2 * min(impossible[usual], impossible[other]) < dates else ORDERS[2:]
    return min(known, key=lambda order: (impossible[order], chat.backwards[order]))


def _me(chat: WhatsAppChat, owner: str, me: str) -> str:
    """The speaker who is the user, or nobody. Raises UnknownSpeaker."""
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
    """With whom the chat is, where the file is named as WhatsApp names it: ``WhatsApp Chat with Boris.txt``."""
    stem = _COPY.sub("", name.rpartition("/")[2].rpartition(".")[0])
    if "WhatsApp" not in stem:
        return ""
    return next((after.strip() for mark in _PREFIXES if (after := stem.partition(mark)[2])), "")


def read(source: SourceFile, chat: WhatsAppChat, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """The messages of the chat, in order."""
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
        raise BadRecord(_("%(value)s is no date in the order of the others") % {"value": shown(date)}) from None
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
    """The words, with marks for what is no text, and whether they were edited."""
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
    """Raises ValueError when the day or hour does not exist."""
    parts = dict(zip(order, head[:3], strict=True))
    year = parts["y"] if parts["y"] >= 100 else 2000 + parts["y"]
    hour = head.hour
    if head.half:
        hour = hour % 12 + (12 if head.half == "p" else 0)
    return datetime(year, parts["m"], parts["d"], hour, head.minute, head.seconds or 0)


def _entries(source: SourceFile) -> Iterator[UndatedMessage]:
    """Messages with the lines that belong to them. Raises UnreadableFile where it is no text in UTF-8."""
    entry: UndatedMessage | None = None
    rest: list[str] = []
    size = 0
    for number, line in _lines(source):
        found = _split(line)
        if found is None:
            # What is longer than a message may be is refused whole; it need not be kept for that.
            if entry and size <= MOST_TEXT:
                rest.append(line)
                size += len(line) + 1
            continue
        if entry:
            yield entry._replace(text="\n".join([entry.text, *rest]))
        head, body = found
        author, text = _spoken(body)
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


def _split(line: str) -> tuple[Head, str] | None:
    """The head of a line that begins a message, and what follows it."""
    plain = line.lstrip(_MARKS)
    if not plain[:2].lstrip("[").isdigit() and not plain[:1].isdigit():
        return None
    found = _HEAD.match(plain.translate(_SPACES))
    if not found or (found[10] == "]") != plain.startswith("["):
        return None
    first, second, third, hour, minute = (int(found[place]) for place in (1, 3, 4, 5, 6))
    half = (found[8] or found[9] or "").lower()
    head = Head(first, second, third, hour, minute, int(found[7]) if found[7] else None, half, found[2])
    # Translated characters are one for one, so places are the same in both.
    return head, plain[found.end() :]


def _spoken(body: str) -> tuple[str, str]:
    """Author and text; a notice has no author."""
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
