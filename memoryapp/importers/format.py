"""A format as a value: its names, and the layouts of its files, each with what recognises and what reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from memoryapp.importers.document import JsonDocument
from memoryapp.importers.record import Clock, Distilled, MessageRecord, Rejected
from memoryapp.importers.source import SourceFile

# Says that none of the speakers is the user.
NOBODY = "-"

Records = Iterator[MessageRecord | Rejected]


@dataclass(frozen=True, slots=True)
class Hints:
    """What a person says about a file, because the file itself may not say it.

    ``owner`` is the name of the chat user. ``me`` is the name or id of the speaker who is the user, or ``NOBODY``.
    A file without times begins at ``start``; ``zone`` is the time zone of times without one. ``any_dates``
    accepts unusual dates. With ``advises``, reasons name options of the command. ``name`` is what people call the file.
    ``dates`` is the order of day, month and year, as ``dmy``; empty if the file may decide. ``chats`` are names and ids
    of chats, empty for all; of these, only messages from ``since`` on and before ``until`` are wanted.
    """

    owner: str = ""
    me: str = ""
    start: datetime | None = None
    any_dates: bool = False
    advises: bool = True
    name: str = ""
    zone: tzinfo = UTC
    dates: str = ""
    chats: frozenset[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None

    def wants_chat(self, *names: str) -> bool:
        """Whether a chat with these names and ids is among the chosen ones."""
        return not self.chats or not self.chats.isdisjoint(name.casefold() for name in names)

    def wants_time(self, at: datetime) -> bool:
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


@dataclass(frozen=True, slots=True)
class ListedChat:
    """A chat in a file, to choose from: ``count`` messages, the ``last`` one at a time in ISO 8601, or empty."""

    id: str
    name: str
    kind: str
    count: int
    last: str


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one source, from its beginning at each call.

    ``users`` returns the names of the users in it, and perhaps some whose messages will be rejected; None if the format
    names no users. ``distilled`` yields what a program made of the messages; None if the format has only messages.
    ``chats`` are the chats in the source, if it may have several.
    """

    records: Callable[[Clock], Records]
    users: Callable[[Clock], set[str]] | None = None
    distilled: Callable[[Clock], Iterator[Distilled | Rejected]] | None = None
    chats: Sequence[ListedChat] = ()


# Each layout has ``recognises``, which gets a sample of the file, and ``open``, which returns the reader and may raise
# UnreadableFile and UnknownSpeaker. ``members`` are patterns for the names of such files in an exported archive.


@dataclass(frozen=True, slots=True)
class DatabaseLayout:
    """A database of SQLite, not packed; the sample is the file. ``recognises`` may raise UnreadableFile."""

    recognises: Callable[[SourceFile], bool]
    open: Callable[[SourceFile, Hints], Reader]
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinesLayout:
    """JSON Lines; the sample is the value of a line, an object.

    With ``takes_any``, any file is read as such lines if a person names the format.
    """

    recognises: Callable[[Any], bool]
    open: Callable[[SourceFile, Hints], Reader]
    members: tuple[str, ...] = ("*.jsonl",)
    takes_any: bool = False


@dataclass(frozen=True, slots=True)
class DocumentLayout:
    """One JSON document; the sample is its outline, the value as far as its first events describe it."""

    recognises: Callable[[Any], bool]
    open: Callable[[JsonDocument, Any, Hints], Reader]
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextLayout:
    """A text that is not JSON; the sample is its first lines."""

    recognises: Callable[[str], bool]
    open: Callable[[SourceFile, Hints], Reader]
    members: tuple[str, ...] = ()


Layout = DatabaseLayout | LinesLayout | DocumentLayout | TextLayout


@dataclass(frozen=True, slots=True)
class Format:
    """``name`` is stored with an import and used by the command, ``label`` is shown to people.

    With ``asks_who``, a person may choose which speaker is the user; with ``asks_zone``, the time zone of the times in
    the file, which have none.
    """

    name: str
    label: str
    layouts: tuple[Layout, ...]
    asks_who: bool = False
    asks_zone: bool = False
