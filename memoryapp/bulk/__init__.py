"""Work on many topics at once: their summaries, cuts, facts or vectors made again.

In: a chat user, numbers of topics and what to do with each. Out: rows that the worker carries out one after another,
each change an edit like any other, and one undo for all. No model is asked in a transaction, and a process may be
killed at any moment: the rows say what is left. It imports the models, ``curation``, ``proposals``, ``search`` and what
``ingestion`` knows of prices.
"""

from memoryapp.bulk.asking import MOST_TOPICS, BulkForecast, BulkProgress, ask, forecast, progress, stop, undo
from memoryapp.bulk.carrying_out import carry_on, going_on

__all__ = [
    "MOST_TOPICS",
    "BulkForecast",
    "BulkProgress",
    "ask",
    "carry_on",
    "forecast",
    "going_on",
    "progress",
    "stop",
    "undo",
]
