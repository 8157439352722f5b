"""Suggested merges and splits, and the queue in which people decide about them.

In: a chat user, or a person's decision. Out: rows of ``Suggestion`` with the numbers that support each, sentences made
of these, and for an accepted one the edit that ``curation`` made. A suggestion is made once for the same topics. A pair
that a person rejected is not suggested again, in either order, even if one of the topics was edited since; the same is
true of a split. It imports the models, ``curation``, the passage comparison of ``effect``, and the engine."""

from memoryapp.curation.settling import SuggestionDecided
from memoryapp.curation.suggestions.consolidation import Check, check_of, evidence_with, verdict_of
from memoryapp.curation.suggestions.making import suggest, with_unchecked
from memoryapp.curation.suggestions.queue import (
    LEASE,
    QueueProgress,
    accept_from,
    clusters,
    decide,
    decline_cluster,
    holder,
    lease,
    merge_cluster,
    next_open,
    opened,
    progress,
    reasons,
    release,
    reopen,
    take_back,
    take_back_edits,
    topics_of,
)
