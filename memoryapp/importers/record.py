"""What every reader yields: a message that can be stored, or the place and reason of one that cannot. A file comes from
strangers, so ``message`` makes every record and checks each field: NUL and lone surrogates become U+FFFD (PostgreSQL
stores neither), lengths and depths are limited, times are aware and in UTC."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.engine.sight import LONGEST as LONGEST_PROJECT
from memoryapp.engine.sight import as_project
from memoryapp.importers.values import BadRecord, clean, moment, quote, words

ROLES = ("user", "assistant", "peer", "system")
MOST_TEXT = 1_000_000
# How many speakers of a file a person chooses from.
MOST_SPEAKERS = 20
LONGEST = {
    "user": 200,
    "external_id": 300,
    "author": 200,
    "session": 200,
    "project": LONGEST_PROJECT,
    "reply_to": 300,
    "forwarded_from": 200,
    "text": MOST_TEXT,
}

_STEP = timedelta(minutes=1)
_PAUSE = timedelta(days=1)


class UnreadableFile(Exception):
    """This file cannot be read; the text is a sentence for people."""


class NoChat(UnreadableFile):
    """This file is empty, or in no known format; among other files it does not matter."""


class UnknownSpeaker(UnreadableFile):
    """A file does not say which of its ``speakers`` is the user; only the first of them are kept. ``sentence`` says
    why; the text also says what to do."""

    def __init__(self, sentence: str, speakers: Sequence[str]) -> None:
        self.sentence, self.speakers = sentence, speakers[:MOST_SPEAKERS]
        ask = _("Say it with --me NAME, or --me - if it is none of them. It has: %(speakers)s.")
        super().__init__(f"{sentence} {ask % {'speakers': ', '.join(self.speakers)}}")


class UnknownOrder(UnreadableFile):
    """The dates of a file have two meanings; ``example`` is one of them."""

    def __init__(self, name: str, example: str) -> None:
        self.example = example
        ask = _(
            "%(path)s does not tell whether its dates, such as %(date)s, begin with the day or with the month. Say it "
            "with --dates dmy or --dates mdy."
        )
        super().__init__(ask % {"path": name, "date": example})


# It is not frozen, because a frozen record takes two and a half times as long to make.
@dataclass(slots=True)
class MessageRecord:
    """One message of a file. ``user`` is the chat user that the file names, or empty. ``external_id`` is unique for a
    chat user, ``sent_at`` is aware and in UTC, ``session`` is an optional label of messages that belong together,
    ``line`` is the place in the file. ``project`` is empty where the import says it."""

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
    project: str = ""
    _hash: str = field(default="", init=False, repr=False, compare=False)

    @property
    def content_hash(self) -> str:
        """The SHA-256 of the text and the time; without the author, because people change the name that is shown."""
        if not self._hash:
            self._hash = sha256(f"{self.sent_at.isoformat()}\n{self.text}".encode()).hexdigest()
        return self._hash


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that is not imported: its place (a line number, or a path in the document), the reason and its user.
    ``known_id`` is the id of the stored message that it would have changed, ``text`` the beginning of its own text."""

    line: int | str
    reason: str
    user: str = ""
    known_id: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut(Rejected):
    """A record that is whole but does not belong to what is imported; ``reason`` says why (see ``reasons``)."""


@dataclass(frozen=True, slots=True)
class Distilled:
    """What another program made of messages: a topic, fact, person or artifact (``kind``) with its row's ``values``.
    ``topic`` is that program's number of the topic from which it was made, as in the metadata of the messages."""

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
    project: object = "",
) -> MessageRecord:
    """Returns the record with these fields, cleaned and checked. Raises BadRecord."""
    kept = _metadata(metadata) if metadata else {}
    whose, id = _text(user, "user"), _text(external_id, "external_id")
    # Arguments by position, and no calls for fields that most messages lack, take a third less time.
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
        as_project(_text(project, "project")) if project else "",
    )
    if not id:
        raise BadRecord(_("it has no id"))
    if role not in ROLES:
        raise BadRecord(
            _("the role must be one of %(roles)s, not %(role)s") % {"roles": ", ".join(ROLES), "role": quote(role)}
        )
    return record


def _text(value: object, name: str) -> str:
    """Returns the text of a field. Raises BadRecord when it is too long or not text."""
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


@dataclass(slots=True)
class Clock:
    """The times of one file's messages.

    A message without a time gets the time of the message before it. At the beginning, it gets the first time in the
    file, which ``find`` returns. A file without any times begins at ``start``: messages follow each other by a minute,
    conversations by a day. Without ``any_dates``, only times from 1970 to the end of next year are accepted, because
    others are faults of the program that wrote them. With ``advises``, reasons name the options for both. ``zone`` is
    the time zone of formats that write local times.

    ``is_borrowed`` is true if the latest message has no time of its own; ``refused`` counts messages that got none."""

    start: datetime | None = None
    any_dates: bool = False
    advises: bool = False
    find: Callable[[], datetime | None] = lambda: None
    zone: tzinfo = UTC
    is_borrowed: bool = False
    refused: int = 0
    _before: datetime | None = None
    _is_counted: bool = False
    _is_searched: bool = False

    def read(self, value: object) -> datetime:
        """Returns the time of the next message. Raises BadRecord."""
        self.is_borrowed = value is None or value == ""
        if not self.is_borrowed:
            self._before, self._is_counted = self._checked(moment(value)), False
        elif self._before is None:
            self._before = self._first()
        elif self._is_counted:
            self._before += _STEP
        return self._before

    def begin(self, times: Iterable[object]) -> None:
        """Begins a conversation; the first of its ``times`` that can be read is that of messages before it."""
        for time in () if self._is_counted else times:
            with suppress(BadRecord):
                self._before = self._checked(moment(time))
                return

    def pause(self) -> None:
        """Ends a conversation; if times are counted, the next one begins a day later."""
        if self._before is not None and self._is_counted:
            self._before += _PAUSE

    def mark(self) -> dict[str, str]:
        """Returns metadata about the time of the latest message; empty if the time is its own."""
        if not self.is_borrowed:
            return {}
        return {"time_source": "counted" if self._is_counted else "neighbour"}

    def _first(self) -> datetime:
        """Returns a time for a message when no earlier one is known. Raises BadRecord."""
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


# Why a message of a file is left out: sentences that begin with "it", in the language of the person who asks.

BRANCH = gettext_lazy("it stands on a branch that was edited or generated anew")
EMPTY = gettext_lazy("it is empty")
EVENT = gettext_lazy("it is an event of the log, no message")
HIDDEN = gettext_lazy("it is of a tool, reasoning or hidden")
OTHER_CHAT = gettext_lazy("its chat was not chosen")
OTHER_USER = gettext_lazy("it is of another user of the file")
OTHER_TIME = gettext_lazy("it is outside of the chosen period")
PROGRAM = gettext_lazy("it is of a tool, reasoning or written by the program")
REWOUND = gettext_lazy("somebody went back from it")
SIDE_CHAIN = gettext_lazy("it is of a side chain, in which agents speak with each other")
TOOL = gettext_lazy("it is a call of a tool or its result")
TWICE = gettext_lazy("it stands twice in the log")
