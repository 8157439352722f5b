"""Stores the merger's verdict: a declined merge leaves the queue, an accepted one is made if that is automatic.

The verdict is stored in the suggestion's evidence, in one short transaction with the merge that follows from it. The
transaction calls no model, and it checks again what may have changed since the model was asked.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from memoryapp import curation, suggestions
from memoryapp.curation import MERGER, ChangeRequest, CurationError
from memoryapp.curation.settling import is_kept_apart
from memoryapp.curation.swapping import lock_owner
from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.llm.agent_calls import AnsweredCall
from memoryapp.models import AgentCall, ChatUser, Suggestion, TopicEdit

State = Suggestion.State


def keep_verdict(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> None:
    """Stores an answer with the suggestion, if that is still open."""
    evidence = suggestions.evidence_with(suggestion, answered.answer)
    _opened(suggestion).update(evidence=evidence, call=answered.call, tries=0)


def keep_failure(suggestion: Suggestion, call: AgentCall) -> None:
    """Marks the check as failed with this call; the merger does not ask again by itself."""
    _opened(suggestion).update(call=call)


@transaction.atomic
def carry_out(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> TopicEdit | None:
    """Stores the verdict and carries it out; returns the edit if the topics were merged.

    A suggestion that the merger declines leaves the queue. One that it accepts is carried out if consolidation is
    automatic, unless a person made one of the topics, keeps their messages apart, or works on the suggestion now, or
    the merger wrote a summary that cannot be used.
    """
    lock_owner(suggestion.owner)
    keep_verdict(suggestion, answered)
    suggestion.refresh_from_db()
    if suggestion.state != State.OPEN or suggestions.holder(suggestion):
        return None
    if not answered.answer.should_merge:
        _opened(suggestion).update(state=State.DECLINED)
        return None
    try:
        return _merge(suggestion, answered)
    except CurationError:
        # Somebody was faster, or a person must decide.
        return None


def leave_apart(suggestion: Suggestion) -> bool:
    """Returns whether a person keeps the messages of the topics apart; if so, the suggestion leaves the queue."""
    apart = is_kept_apart(suggestion)
    if apart:
        _opened(suggestion).update(state=State.OUTDATED)
    return apart


@transaction.atomic
def _merge(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> TopicEdit | None:
    """Raises CurationError: ByHand if a person must decide, Stale or SuggestionDecided if somebody was faster."""
    owner, verdict = suggestion.owner, answered.answer
    automatic = ChatUser.objects.filter(pk=owner.pk, consolidation=ChatUser.Consolidation.AUTOMATIC)
    if verdict.fault or not automatic.exists() or leave_apart(suggestion):
        return None
    wanted = ChangeRequest(curation.MERGE, owner, tuple(suggestion.topics), summaries=(verdict.summary,))
    made = curation.make(
        wanted, actor=MERGER, reason=verdict.reason, by_hand=False, accepts=[suggestion], call=answered.call
    )
    return made.edit


def _opened(suggestion: Suggestion) -> QuerySet[Suggestion]:
    return Suggestion.objects.filter(pk=suggestion.pk, state=State.OPEN)
