"""Accepts a suggestion with the change that carries it out, or takes the decision back; each in one transaction."""

from __future__ import annotations

from django.db import transaction

from memoryapp import curation
from memoryapp.curation import Change
from memoryapp.models import AgentCall, Suggestion, TopicEdit
from memoryapp.suggestions.queue import decide, reopen


@transaction.atomic
def accept(
    suggestion: Suggestion,
    change: Change,
    *,
    kind: TopicEdit.Kind,
    actor: str,
    reason: str = "",
    by_hand: bool = True,
    call: AgentCall | None = None,
) -> TopicEdit:
    """Makes the change and closes the suggestion with its edit. ``call`` is the agent's call whose answer it carries
    out.

    Raises SuggestionDecided when it was decided before, and what ``curation.swap`` raises; then nothing is changed.
    """
    edit = curation.swap(suggestion.owner, change, kind=kind, actor=actor, reason=reason, by_hand=by_hand, call=call)
    decide(suggestion, Suggestion.State.ACCEPTED, actor=actor, edit=edit)
    return edit


@transaction.atomic
def take_back(suggestion: Suggestion, *, actor: str) -> Suggestion:
    """Undoes the edit that accepted the suggestion, if it is in effect, and opens the suggestion again.

    Raises Depends when later edits depend on that edit, Decided when the topics no longer exist.
    """
    edit = suggestion.edit
    if edit is not None and curation.in_effect(suggestion.owner_id, [edit.pk]).get(edit.pk):
        curation.undo(suggestion.owner, edit, actor=actor)
    return reopen(suggestion)
