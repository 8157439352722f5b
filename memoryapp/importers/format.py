"""A format as a value: its names, and the layouts of its files, each with what recognises and what reads it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers.document import JsonDocument
from memoryapp.importers.record import Clock, Distilled, MessageRecord, Rejected, UnknownSpeaker
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
    of chats, empty for all; of these, only messages from ``since`` on and before ``until`` are wanted."""

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
    ``chats`` are the chats in the source, if it may have several."""

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
    """JSON Lines; the sample is the value of a line, an object. With ``takes_any``, any file is read as such lines if a
    person names the format."""

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
    """``name`` is stored with an import and used by the command, ``label`` is shown to people. With ``asks_who``, a
    person may choose which speaker is the user; with ``asks_zone``, the time zone of the times in the file, which have
    none."""

    name: str
    label: str
    layouts: tuple[Layout, ...]
    asks_who: bool = False
    asks_zone: bool = False


# Who among the speakers of a chat is the user.

# The names and ids of one speaker; the first is shown to people.
Speaker = tuple[str, ...]


def found_speaker(speakers: Counter[Speaker], hints: Hints, title: str = "") -> Speaker:
    """Returns the speaker who is the user, empty for none. ``title`` is the name of a chat of two, if it has one. It is
    the one whom a person named, or whose name is that of the chat user; in a chat that is called after one of two
    speakers, the other one. Raises UnknownSpeaker."""
    if hints.me == NOBODY or not speakers:
        return ()
    wanted = (hints.me or hints.owner).casefold()
    named = _matching(speakers, wanted)
    if named:
        return named
    others = [each for each in speakers if each != _matching(speakers, title.casefold())]
    if not hints.me and len(speakers) == 2 and len(others) == 1:
        return others[0]
    sentence = _("The chat does not tell who the user is.")
    if hints.me:
        sentence = _("Nobody in this file is “%(name)s”.") % {"name": hints.me}
    raise UnknownSpeaker(sentence, [each[0] or each[-1] for each, _count in speakers.most_common()])


def _matching(speakers: Sequence[Speaker] | Counter[Speaker], wanted: str) -> Speaker:
    return next((each for each in speakers if wanted and wanted in [name.casefold() for name in each]), ())
