"""Passes of the merger over a chat user's suggested merges: a batch at a time, the best first.

One worker is at a chat user, and no model is asked inside a transaction. A process that is killed after a reply asks
nothing again, for the reply is kept. After a failure the next pass waits, the longer the more there were, so that a
model that is away or answers rubbish is neither hammered nor paid for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from memoryapp import proposals, suggestions, work
from memoryapp.agent_calls import OpenChat
from memoryapp.consolidation.carrying_out import carry_out, keep_failure, leave_apart
from memoryapp.curation.settling import settle
from memoryapp.engine.agents.ask import UnreadableAnswer
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.models import AgentCall, ChatUser, Suggestion, Topic, Work
from memoryapp.operations import advisory_locks
from memoryapp.operations.waits import renewed, waits

# How long the merger rests after its last so many questions failed.
RESTS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=1))
# After so many questions that no model answered the check of a pair has failed, and is left to people.
MOST_TRIES = 10
# What is the endpoint's fault: it may answer later. Whatever else fails is the pair's.
PASSING = frozenset({"timeout", "turn_timeout", "llm_error"})


@dataclass(frozen=True, slots=True)
class Pass:
    """How many pairs were judged, and of them merged; ``busy`` when another worker was at this chat user."""

    judged: int = 0
    merged: int = 0
    busy: bool = False


def due() -> QuerySet[ChatUser]:
    """The chat users for whom merges are suggested that the merger has not judged."""
    return ChatUser.objects.filter(Exists(unjudged().filter(owner=OuterRef("pk")))).order_by("pk")


def resumes_at(owner: ChatUser) -> datetime | None:
    """When the merger may be asked again, after questions that failed; None where the last one was answered."""
    asked = AgentCall.objects.filter(owner=owner, agent=AgentCall.Agent.MERGER, asked_by="").order_by("-pk")
    last = asked.values_list("at", "outcome")[: len(RESTS)]
    failed = [at for at, _outcome in takewhile(lambda call: bool(call[1]), last)]
    return failed[0] + RESTS[len(failed) - 1] if failed else None


def consolidate(owner: ChatUser, open_chat: OpenChat, *, worker: str = work.WORKER) -> Pass:
    """Has the merger judge the owner's best suggested merges, a batch of them.

    How far it is stands in the owner's row of work. Raises LLMError and UnreadableAnswer, after which the rest waits;
    what was judged before stays so.
    """
    with advisory_locks.exclusive("consolidate", owner.pk) as alone:
        if not alone:
            return Pass(busy=True)
        if waits(resumes_at(owner), RESTS[-1]):
            return Pass()
        with transaction.atomic():
            settle(owner)
        batch = list(_best(owner)[: settings.CONSOLIDATION_BATCH_SIZE])
        if not batch:
            return Pass()
        return _judge_each(owner, batch, open_chat, worker)


def _judge_each(owner: ChatUser, batch: list[Suggestion], open_chat: OpenChat, worker: str) -> Pass:
    judged = merged = 0
    with work.tracked(owner, Work.Kind.CONSOLIDATE, worker) as steps:
        for place, suggestion in enumerate(batch, 1):
            topics = _live(suggestion)
            if topics and not leave_apart(suggestion):
                merged += _judge(suggestion, topics, open_chat)
                judged += 1
            steps.reached(judged, place / len(batch))
    return Pass(judged, merged)


def _judge(suggestion: Suggestion, topics: list[Topic], open_chat: OpenChat) -> bool:
    """Whether the topics were merged. Raises LLMError, UnreadableAnswer, which are noted first."""
    try:
        answered = proposals.merge_judged_by(open_chat, suggestion.owner, topics)
    except (LLMError, UnreadableAnswer):
        _note_failure(suggestion, topics)
        raise
    return carry_out(suggestion, answered) is not None


def _note_failure(suggestion: Suggestion, topics: list[Topic]) -> None:
    call = AgentCall.objects.filter(
        owner=suggestion.owner_id, agent=AgentCall.Agent.MERGER, topics=[topic.pk for topic in topics]
    ).latest("pk")
    Suggestion.objects.filter(pk=suggestion.pk).update(tries=suggestion.tries + 1)
    if call.outcome not in PASSING or suggestion.tries + 1 >= MOST_TRIES:
        keep_failure(suggestion, call)


def _live(suggestion: Suggestion) -> list[Topic]:
    """The topics, older first; none where they are not all live any more, or somebody decided meanwhile."""
    wanted = Suggestion.objects.filter(pk=suggestion.pk, state=Suggestion.State.OPEN)
    if not wanted.exclude(owner__consolidation=ChatUser.Consolidation.OFF).exists():
        return []
    found = Topic.objects.of(suggestion.owner_id).live().in_bulk(suggestion.topics)
    return [found[number] for number in suggestion.topics] if len(found) == len(suggestion.topics) else []


def unjudged() -> QuerySet[Suggestion]:
    """Suggested merges that no question was asked about, and that nobody looks at right now; not those of chat users
    for whom nothing is consolidated."""
    kind, state = Suggestion.Kind.MERGE, Suggestion.State.OPEN
    rows = Suggestion.objects.filter(
        ~renewed("held_at", suggestions.LEASE), kind=kind, state=state, call=None, edit=None
    )
    return rows.exclude(owner__consolidation=ChatUser.Consolidation.OFF)


def _best(owner: ChatUser) -> QuerySet[Suggestion]:
    """One whose questions went unanswered lets the others go first."""
    return unjudged().filter(owner=owner).select_related("owner").order_by("tries", "-score", "-pk")
