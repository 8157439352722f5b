"""What every reader yields: a message that can be stored, or the place and reason of one that cannot.

A file is data from strangers, so every record is made by ``message``, which checks each field: NUL and lone surrogates
become U+FFFD (PostgreSQL stores neither), lengths and depths are bounded, times are aware and in UTC.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.engine.storable import storable

ROLES = ("user", "assistant", "peer", "system")
MOST_TEXT = 1_000_000
MOST_DEPTH = 32
# How many speakers of a file a person chooses from.
MOST_SPEAKERS = 20
LONGEST = {
    "user": 200,
    "external_id": 300,
    "author": 200,
    "session": 200,
    "reply_to": 300,
    "forwarded_from": 200,
    "text": MOST_TEXT,
}

# Numbers too large for seconds are thousandths, millionths or thousand millionths of them.
_UNITS = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3))
_SECONDS = re.compile(r"-?\d{9,19}(?:\.\d{1,9})?")
_STEP = timedelta(minutes=1)
_PAUSE = timedelta(days=1)


class UnreadableFile(Exception):
    """Nothing can be read from this file; the text is a sentence for people."""


class UnknownSpeaker(UnreadableFile):
    """A file does not say which of its ``speakers`` is the user; only the first of them are kept.

    ``sentence`` says why; the text also says what to do.
    """

    def __init__(self, sentence: str, speakers: Sequence[str]) -> None:
        self.speakers = speakers[:MOST_SPEAKERS]
        ask = _("Say it with --me NAME, or --me - if it is none of them. It has: %(speakers)s.")
        super().__init__(f"{sentence} {ask % {'speakers': ', '.join(self.speakers)}}")


class BadRecord(Exception):
    """This one record cannot be taken; the text says why."""


# Not frozen, for that makes each take two and a half times as long.
@dataclass(slots=True)
class MessageRecord:
    """One message of a file. ``user`` is the chat user the file names, or empty.

    ``external_id`` is unique within the chat user, ``sent_at`` aware and in UTC, ``session`` an optional
    label of what belongs together, ``line`` the place in the file.
    """

    user: str
    external_id: str
    role: str
    author: str
    sent_at: datetime
    text: str
    session: str = ""
    reply_to: str = ""
    forwarded_from: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int | str = ""
    _hash: str = field(default="", init=False, repr=False, compare=False)

    @property
    def content_hash(self) -> str:
        """A hash of the text and the time; not of the author, for people change how they are shown."""
        if not self._hash:
            self._hash = sha256(f"{self.sent_at.isoformat()}\n{self.text}".encode()).hexdigest()
        return self._hash


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record left out: its place (a line number, or a path in the document), why, whose it was, and the id of
    the stored message it would have changed, with the beginning of its text in the file."""

    line: int | str
    reason: str
    user: str = ""
    known_id: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Distilled:
    """What another program made of messages: a topic, fact, person or artifact (``kind``) with the ``values`` of its
    row. ``topic`` is the number that the program gave the topic it came from, as in the metadata of the messages."""

    kind: str
    user: str
    line: str
    values: Mapping[str, Any]
    topic: Any = None


def message(
    *,
    sent_at: datetime,
    role: object,
    external_id: object,
    text: object,
    user: object = "",
    author: object = "",
    session: object = "",
    reply_to: object = "",
    forwarded_from: object = "",
    metadata: Mapping[str, Any] | None = None,
    line: int | str = "",
) -> MessageRecord:
    """The record of these fields, cleaned and checked. Raises BadRecord."""
    kept = _metadata(metadata) if metadata else {}
    whose, id = _text(user, "user"), _text(external_id, "external_id")
    # By position, and without a call for what most messages have not: a third less time.
    record = MessageRecord(
        whose,
        id,
        role,  # type: ignore[arg-type]
        _text(author, "author"),
        sent_at,
        _text(text, "text"),
        "" if session is None else _text(session, "session"),
        "" if reply_to is None else _text(reply_to, "reply_to"),
        "" if forwarded_from is None else _text(forwarded_from, "forwarded_from"),
        kept,
        line,
    )
    if not id:
        raise BadRecord(_("it has no id"))
    if role not in ROLES:
        raise BadRecord(
            _("the role must be one of %(roles)s, not %(role)s") % {"roles": ", ".join(ROLES), "role": shown(role)}
        )
    return record


def _text(value: object, name: str) -> str:
    """A field's text, not too long. Raises BadRecord."""
    text = words(value, name)
    if len(text) > LONGEST[name]:
        most = f"{LONGEST[name]:,}"
        raise BadRecord(_("%(name)s is longer than %(most)s characters") % {"name": name, "most": most})
    return text


def _metadata(given: Any) -> dict[str, Any]:
    metadata = {str(key): value for key, value in clean(given).items()}
    if len(json.dumps(metadata)) > MOST_TEXT:
        raise BadRecord(_("its metadata is longer than %(most)s characters") % {"most": f"{MOST_TEXT:,}"})
    return metadata


def words(value: object, name: str) -> str:
    """Text as it can be stored; whole numbers count as text, null as none. Raises BadRecord."""
    if isinstance(value, str):
        return storable(value)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadRecord(_("%(name)s must be text, not %(value)s") % {"name": name, "value": shown(value)})


def clean(value: Any, depth: int = 0) -> Any:
    """A JSON value as ``jsonb`` can hold it. Raises BadRecord when it is nested too deeply."""
    if depth > MOST_DEPTH:
        raise BadRecord(_("it is nested deeper than %(most)s levels") % {"most": MOST_DEPTH})
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {clean(key, depth + 1): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def moment(value: object) -> datetime:
    """An ISO 8601 text, or seconds or parts of seconds since 1970, as an aware time in UTC; no zone means UTC.

    Raises BadRecord.
    """
    if value is None or value == "":
        raise BadRecord(_("it has no time"))
    try:
        # A fifth sign that is a dash is no number's, and is in nearly every text.
        if isinstance(value, str) and (value[4:5] == "-" or not _SECONDS.fullmatch(value.strip())):
            read = datetime.fromisoformat(value.strip())
            return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return datetime.fromtimestamp(_seconds(float(value) if isinstance(value, str) else value), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise BadRecord(_("%(value)s is not a time such as 2025-07-25T14:30:00Z") % {"value": shown(value)})


def _seconds(value: float) -> float:
    return next((value / parts for least, parts in _UNITS if abs(value) >= least), value)


Find = Callable[[], datetime | None]


@dataclass(slots=True)
class Clock:
    """The times of one file's messages.

    A message without a time takes that of the one before it, or, at the beginning, of the first after it that has
    one, which ``find`` looks up. A file without any times begins at ``start``: its messages follow one another by a
    minute, conversations by a day. Without ``any_dates`` only times from 1970 to the next year are taken, for others
    are faults of the program that wrote them. ``advises`` says that whoever reads the reasons can give both. ``zone``
    is that of local times, in a format that writes no others.

    ``is_borrowed`` says whether the time read last is not the message's own; ``refused`` counts messages for which
    there was none.
    """

    start: datetime | None = None
    any_dates: bool = False
    advises: bool = False
    find: Find = lambda: None
    zone: tzinfo = UTC
    is_borrowed: bool = False
    refused: int = 0
    _before: datetime | None = None
    _is_counted: bool = False
    _is_searched: bool = False

    def read(self, value: object) -> datetime:
        """The time of the next message. Raises BadRecord."""
        self.is_borrowed = value is None or value == ""
        if not self.is_borrowed:
            self._before, self._is_counted = self._checked(moment(value)), False
        elif self._before is None:
            self._before = self._first()
        elif self._is_counted:
            self._before += _STEP
        return self._before

    def begin(self, find: Find) -> None:
        """A conversation begins, whose first known time is found by ``find``."""
        if not self._is_counted:
            found = find()
            self._before = self._before if found is None else found

    def pause(self) -> None:
        """A conversation ended, and the next has nothing to do with it."""
        if self._before is not None and self._is_counted:
            self._before += _PAUSE

    def mark(self) -> dict[str, str]:
        """What the metadata of the message read last says about its time."""
        if not self.is_borrowed:
            return {}
        return {"time_source": "counted" if self._is_counted else "neighbour"}

    def _first(self) -> datetime:
        """A time for a message before which none is known. Raises BadRecord."""
        found = None if self._is_searched else self.find()
        self._is_searched = True
        if found is None and self.start is not None:
            self._is_counted = True
            return self.start
        if found is None:
            self.refused += 1
            advice = _("it has no time; --start DATE gives such messages times in their order")
            raise BadRecord(advice if self.advises else _("it has no time"))
        return found

    def _checked(self, time: datetime) -> datetime:
        if not self.any_dates and not 1970 <= time.year <= datetime.now(UTC).year + 1:
            reason = _("the date %(date)s is not between 1970 and the end of next year")
            advice = _("the date %(date)s is not between 1970 and the end of next year; --any-dates takes it")
            raise BadRecord((advice if self.advises else reason) % {"date": time.date().isoformat()})
        return time


def shown(value: object) -> str:
    """A value of the file in a sentence: quoted, short."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
