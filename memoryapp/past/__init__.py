"""The memory as it was at a moment: which topics were live, which messages were in, what was known of people and facts.

In: an owner and a moment. Out: rows as they were then, for pages and for runs that search the past. Topics never
change, so their edits tell which were live. People, facts and artifacts are followed back from what they are now,
through the changes since. What was erased in between is gone from every past, too. It imports models and ``reading``,
and writes nothing.
"""

from memoryapp.past.background import background_at, never_among
from memoryapp.past.known import as_rows, known_at, recall_at, rows_at
from memoryapp.past.messages import in_no_topic_at, messages_at
from memoryapp.past.moments import just_after, just_before, moment_of
from memoryapp.past.topics import (
    LIVE_AT,
    as_then,
    first_moment,
    holders_at,
    retired_by,
    side_at,
    topics_at,
    topics_of,
)

__all__ = [
    "LIVE_AT",
    "as_rows",
    "as_then",
    "background_at",
    "first_moment",
    "holders_at",
    "in_no_topic_at",
    "just_after",
    "just_before",
    "known_at",
    "messages_at",
    "moment_of",
    "never_among",
    "recall_at",
    "retired_by",
    "rows_at",
    "side_at",
    "topics_at",
    "topics_of",
]
