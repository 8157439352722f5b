"""The history: every change of a memory (of topics and of people, facts and artifacts) in one list, and its undo. In: a
chat user, a filter and a cursor. Out: pages of entries, each with what it changed and whether it is in effect. It
writes only through the undo of ``curation`` and of ``knowledge``, which it imports beside the models."""

from memoryapp.curation.history.listing import (
    MODELS,
    AutomaticChanges,
    Cursor,
    HistoryEntry,
    HistoryPage,
    Narrowing,
    Record,
    Source,
    Topics,
    actors,
    automatic_changes,
    entries,
    entry,
    imports,
    page,
    withdraw,
    withdrawal,
)
from memoryapp.curation.history.undoing import (
    EXTRACTOR,
    Night,
    night_of,
    nights,
    standing_between,
    undo,
    undo_between,
    undo_night,
    undo_with_dependents,
)
