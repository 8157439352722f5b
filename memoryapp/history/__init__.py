"""The history: every change of a memory (of topics and of people, facts and artifacts) in one list, and its undo.

In: a chat user, a filter and a cursor. Out: pages of entries, each with what it changed and whether it is in effect. It
writes only through the undo of ``curation`` and of ``knowledge``, which it imports beside the models.
"""

from memoryapp.history.automatic import AutomaticChanges, automatic_changes
from memoryapp.history.entries import Cursor, HistoryEntry, Record, Source, Topics, entries, entry
from memoryapp.history.import_batches import Import, Withdrawal, imports, withdraw, withdrawal
from memoryapp.history.listing import MODELS, HistoryPage, Narrowing, actors, page
from memoryapp.history.nights import EXTRACTOR, Night, night_of, nights, undo_night
from memoryapp.history.undoing import standing_between, undo, undo_between, undo_with_dependents

__all__ = [
    "MODELS",
    "AutomaticChanges",
    "Cursor",
    "EXTRACTOR",
    "HistoryEntry",
    "Import",
    "Narrowing",
    "Night",
    "HistoryPage",
    "Record",
    "Source",
    "Topics",
    "Withdrawal",
    "actors",
    "automatic_changes",
    "entries",
    "entry",
    "imports",
    "night_of",
    "nights",
    "page",
    "standing_between",
    "undo",
    "undo_between",
    "undo_night",
    "undo_with_dependents",
    "withdraw",
    "withdrawal",
]
