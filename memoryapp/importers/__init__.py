"""Reads chat files of other programs as messages.

In: a path, and hints about what a file may not say (whose chat it is, when it began). Out: a generator of message
records in order; a message that cannot be imported comes out as ``Rejected`` with its place and a reason, so nothing is
lost silently. A format is a module that ends with a ``Format`` value, which ``registry`` lists; ``opening`` chooses
among them by the content of the file, not by its name. It imports Django's translations, the JSON parsers, and from the
engine what makes text storable."""

from memoryapp.importers.format import NOBODY, Hints
from memoryapp.importers.formats.opening import ChatFile, open_chat, read
from memoryapp.importers.formats.registry import FORMATS
from memoryapp.importers.record import (
    Distilled,
    LeftOut,
    MessageRecord,
    Rejected,
    UnknownOrder,
    UnknownSpeaker,
    UnreadableFile,
)

__all__ = [
    "FORMATS",
    "NOBODY",
    "ChatFile",
    "Distilled",
    "Hints",
    "LeftOut",
    "MessageRecord",
    "Rejected",
    "UnknownOrder",
    "UnknownSpeaker",
    "UnreadableFile",
    "open_chat",
    "read",
]
