"""The one way into curation: whoever asks for a change of topics, it is planned and made here.

Forms, the interface for programs, agents, suggestions and work on many topics only translate what they got.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from django.db import transaction

from memoryapp.curation.change import Change
from memoryapp.curation.operations.operation import ChangeRequest
from memoryapp.curation.settling import close
from memoryapp.curation.topic_writer import Summarise, check_live, opening, swap
from memoryapp.models import AgentCall, Suggestion, Topic, TopicEdit


class MadeChange(NamedTuple):
    """A change and the edit that made it."""

    edit: TopicEdit
    change: Change


def plan(request: ChangeRequest, summarise: Summarise = opening) -> Change:
    """The change that is asked for; nothing is written. Raises CurationError, Stale, and what ``summarise`` raises."""
    seen = Topic.objects.of(request.owner).filter(pk__in=request.topics)
    check_live(request.owner, request.topics, dict(seen.values_list("pk", "is_live")))
    return _with_summaries(request.operation.plan(request, summarise), request.summaries)


def make(
    request: ChangeRequest,
    *,
    actor: str,
    reason: str = "",
    by_hand: bool = True,
    accepts: Collection[Suggestion] = (),
    call: AgentCall | None = None,
) -> MadeChange:
    """Makes the change that is asked for, and closes the suggestions that it ``accepts`` with its edit.

    ``by_hand`` means that a person asked; ``call`` is the agent's question whose answer is carried out. Raises
    CurationError, Stale, ByHand as ``plan`` and ``swap`` do, and SuggestionDecided; then nothing is changed.
    """
    change = plan(request)
    kind = TopicEdit.Kind(request.operation.name)
    with transaction.atomic():
        edit = swap(request.owner, change, kind=kind, actor=actor, reason=reason, by_hand=by_hand, call=call)
        if accepts:
            close(request.owner, accepts, Suggestion.State.ACCEPTED, actor=actor, edit=edit)
    return MadeChange(edit, change)


def _with_summaries(change: Change, summaries: Collection[str]) -> Change:
    """The change with the summaries that people wrote, if there is one for each topic."""
    if len(summaries) != len(change.put):
        return change
    pairs = zip(change.put, summaries, strict=True)
    return replace(change, put=tuple(replace(draft, summary=summary or draft.summary) for draft, summary in pairs))
