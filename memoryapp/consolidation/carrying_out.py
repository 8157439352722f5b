"""What the merger answered about a suggested merge, kept with the suggestion and carried out where nobody is asked.

A verdict is kept in the evidence of its suggestion, in one short transaction with the merge that follows from it. No
model is called in it, and what may have changed since the model was asked is looked at again.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from memoryapp import curation, suggestions
from memoryapp.agent_calls import AnsweredCall
from memoryapp.curation import MERGER, CurationError
from memoryapp.curation.settling import is_kept_apart
from memoryapp.curation.swapping import lock_owner
from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.models import AgentCall, ChatUser, Suggestion, TopicEdit

State = Suggestion.State


def keep_verdict(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> None:
    """Keeps an answer with the suggestion, if that is open still."""
    evidence = suggestions.evidence_with(suggestion, answered.answer)
    _opened(suggestion).update(evidence=evidence, call=answered.call, tries=0)


def keep_failure(suggestion: Suggestion, call: AgentCall) -> None:
    """Leaves the check as failed with this question; nobody asks again by themselves."""
    _opened(suggestion).update(call=call)


@transaction.atomic
def carry_out(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> TopicEdit | None:
    """Keeps the verdict and does what the chat user wants done with it; returns the edit of a merge.

    Topics that are not one leave the queue. Those that are one are merged where consolidation is automatic, unless a
    person made one of them, keeps what they hold apart, or looks at the suggestion right now.
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
        # Somebody was faster, or a person has to decide.
        return None


def leave_apart(suggestion: Suggestion) -> bool:
    """Whether a person keeps apart what the topics hold; then the suggestion leaves the queue."""
    apart = is_kept_apart(suggestion)
    if apart:
        _opened(suggestion).update(state=State.OUTDATED)
    return apart


@transaction.atomic
def _merge(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> TopicEdit | None:
    """Raises CurationError: ByHand where a person has to decide, Stale or Decided where one was faster."""
    owner, verdict = suggestion.owner, answered.answer
    automatic = ChatUser.objects.filter(pk=owner.pk, consolidation=ChatUser.Consolidation.AUTOMATIC)
    if not automatic.exists() or leave_apart(suggestion):
        return None
    return suggestions.accept(
        suggestion,
        curation.plan_merge(owner, suggestion.topics, verdict.summary),
        kind=TopicEdit.Kind.MERGE,
        actor=MERGER,
        reason=verdict.reason,
        by_hand=False,
        call=answered.call,
    )


def _opened(suggestion: Suggestion) -> QuerySet[Suggestion]:
    return Suggestion.objects.filter(pk=suggestion.pk, state=State.OPEN)
