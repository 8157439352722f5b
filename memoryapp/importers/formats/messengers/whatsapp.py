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
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from django.utils.translation import gettext as _

from memoryapp.importers.format import Format, Hints, Reader, TextLayout
from memoryapp.importers.formats.messengers.plain_text import AlikeTexts, text_lines
from memoryapp.importers.formats.messengers.whatsapp_lines import (
    MARKS,
    YEAR_SIGNS,
    Head,
    author_and_text,
    date_of,
    head_and_rest,
    plain_spaces,
)
from memoryapp.importers.record import (
    MOST_TEXT,
    BadRecord,
    Clock,
    MessageRecord,
    Rejected,
    UnknownOrder,
    UnreadableFile,
    message,
    quote,
)
from memoryapp.importers.source import SourceFile
from memoryapp.importers.speakers import Speaker, found_speaker

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
    word beside a time, and ``has_late_hours`` says that hours are counted to 24.
    """

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
    else; if nothing in the file decides between them, a person does. Raises UnknownOrder.
    """
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


def read(source: SourceFile, chat: WhatsAppChat, clock: Clock) -> Iterator[MessageRecord | Rejected]:
    """Yields the messages of the chat, in order."""
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
    edited = _EDITED.search(raw) or _EDITED_WORD.search(raw)
    raw = raw[: edited.start()] if edited else raw
    text = plain_spaces(raw).strip(MARKS + " \n").replace("\n\u200e", "\n")
    first, _newline, caption = text.partition("\n")
    marked = _MARKED_FILE.fullmatch(raw.partition("\n")[0].rstrip())
    if found := _ATTACHED.fullmatch(first) or marked or _FILE.fullmatch(first.strip(MARKS)):
        text = f"[file: {found[1].strip(MARKS)}]\n{caption}".strip()
    elif found := _ATTACHED_BEHIND.search(text):
        text = f"[file: {found[1].strip(MARKS)}]\n{text[: found.start()]}".strip(MARKS + " \n")
    elif not text or _MEDIA.fullmatch(text):
        text = "[media]"
    return text, {"edited": True} if edited else {}


def _time(head: Head, order: str) -> datetime:
    """Returns the local time. Raises ValueError when the day or hour does not exist."""
    parts = dict(zip("ymd" if head.separator in YEAR_SIGNS else order, head[:3], strict=True))
    day = date_of(parts["y"], parts["m"], parts["d"])
    return datetime(day.year, day.month, day.day, head.hour, head.minute, head.seconds or 0)


def _undated(source: SourceFile) -> Iterator[int]:
    """Yields the numbers of the lines before the first message; an export that was cut begins with some."""
    for number, line in takewhile(lambda each: head_and_rest(each[1]) is None, text_lines(source)):
        if line.strip(MARKS + " "):
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
