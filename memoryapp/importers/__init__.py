"""Chat files of other programs read as messages of ours.

In: a path, and hints for what a file may not say (whose chat it is, when it began). Out: a generator of message
records in order; a message that cannot be taken comes out as ``Rejected`` with its place and a reason, so nothing is
lost silently. One module a format, each with ``recognises`` and ``read``; ``opening`` chooses among them by what the
file holds, not by its name. It imports Django's translations, the JSON parsers, and from the engine what makes text
storable.
"""

from memoryapp.importers.opening import FORMATS, ChatFile, Hints, open_chat, read
from memoryapp.importers.record import Distilled, MessageRecord, Rejected, UnknownSpeaker, UnreadableFile

__all__ = [
    "FORMATS",
    "ChatFile",
    "Distilled",
    "Hints",
    "MessageRecord",
    "Rejected",
    "UnknownSpeaker",
    "UnreadableFile",
    "open_chat",
    "read",
]
