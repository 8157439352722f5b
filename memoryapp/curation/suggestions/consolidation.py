"""The merger judges suggested merges; if a chat user wants that, they are made without a person.

In: a chat user, and a function that opens a chat model. Out: a verdict stored with each suggestion, and the edit that
``curation.make`` made, if consolidation is automatic. Similarity alone merges nothing. It imports the models,
``work``, ``agent_calls``, ``curation``, ``proposals``, ``suggestions`` and the engine."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import takewhile
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext_lazy, ngettext_lazy

from memoryapp import curation
from memoryapp.curation import MERGER, ChangeRequest, CurationError, suggestions
from memoryapp.curation.settling import is_kept_apart, settle
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.topic_writer import lock_owner
from memoryapp.engine.agents import merger
from memoryapp.engine.agents.ask import UnreadableAnswer
from memoryapp.engine.agents.merger import MergeVerdict
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.models import AgentCall, ChatUser, Suggestion, Topic, TopicEdit
from memoryapp.models.work import WorkKind
from memoryapp.platform import database, work
from memoryapp.platform.database import lease_holds, waits
from memoryapp.platform.llm.agent_calls import AnsweredCall, OpenChat

# Stores the merger's verdict: a declined merge leaves the queue, an accepted one is made if that is automatic.
#
# The verdict is stored in the suggestion's evidence, in one short transaction with the merge that follows from it.
# The transaction calls no model, and it checks again what may have changed since the model was asked.

State = Suggestion.State


def keep_verdict(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> None:
    """Stores an answer with the suggestion, if that is still open."""
    evidence = suggestions.evidence_with(suggestion, answered.answer)
    _opened(suggestion).update(evidence=evidence, call=answered.call, tries=0)


@transaction.atomic
def carry_out(suggestion: Suggestion, answered: AnsweredCall[MergeVerdict]) -> TopicEdit | None:
    """Stores the verdict and carries it out; returns the edit if the topics were merged.

    A suggestion that the merger declines leaves the queue. One that it accepts is carried out if consolidation is
    automatic, unless a person made one of the topics, keeps their messages apart, or works on the suggestion now, or
    the merger wrote a summary that cannot be used."""
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


# Passes of the merger over a chat user's suggested merges, one batch at a time, the best first.
#
# One worker at a time works for a chat user, and no model is asked inside a transaction. Each reply is stored, so
# after a process was killed no question is asked again. After a failure the next pass waits, longer with each further
# failure. This limits the load on an unreachable model and the cost of unreadable answers.

CONSOLIDATE = WorkKind(
    "consolidate",
    gettext_lazy("Consolidation"),
    ngettext_lazy("%(done)s pair of topics (%(percent)s %%)", "%(done)s pairs of topics (%(percent)s %%)", "n"),
)
# How long the merger waits after one, two, three, and four or more failed questions in a row.
RESTS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=1))
# After so many unanswered questions the check of a pair has failed; people decide about it.
MOST_TRIES = 10
# Outcomes caused by the endpoint, which may answer later; any other failure is caused by the pair.
PASSING = frozenset({"timeout", "turn_timeout", "llm_error"})


@dataclass(frozen=True, slots=True)
class Pass:
    """How many pairs were judged, and how many of them merged; ``busy`` if another worker had this chat user."""

    judged: int = 0
    merged: int = 0
    busy: bool = False


def due() -> QuerySet[ChatUser]:
    """Chat users with suggested merges that the merger has not judged."""
    return ChatUser.objects.filter(Exists(unjudged().filter(owner=OuterRef("pk")))).order_by("pk")


def resumes_at(owner: ChatUser) -> datetime | None:
    """Returns when the merger may be asked again after failures; None if the last question was answered."""
    asked = AgentCall.objects.filter(owner=owner, agent=merger.AGENT.name, asked_by="").order_by("-pk")
    last = asked.values_list("at", "outcome")[: len(RESTS)]
    failed = [at for at, _outcome in takewhile(lambda call: bool(call[1]), last)]
    return failed[0] + RESTS[len(failed) - 1] if failed else None


def consolidate(owner: ChatUser, open_chat: OpenChat, *, worker: str = work.WORKER) -> Pass:
    """Has the merger judge one batch of the owner's suggested merges, the best first. The owner's row of work shows the
    progress. Raises LLMError and UnreadableAnswer; then the rest of the batch waits, and earlier verdicts stay."""
    with database.exclusive("consolidate", owner.pk) as alone:
        if not alone:
            return Pass(busy=True)
        if waits(resumes_at(owner), RESTS[-1]):
            return Pass()
        with transaction.atomic():
            settle(owner)
        batch = list(_best(owner)[: settings.CONSOLIDATION_BATCH_SIZE])
        if not batch:
            return Pass()
        judged = merged = 0
        with work.tracked(owner, CONSOLIDATE, worker) as steps:
            for place, suggestion in enumerate(batch, 1):
                topics = _live(suggestion)
                if topics and not leave_apart(suggestion):
                    merged += _judge(suggestion, topics, open_chat)
                    judged += 1
                steps.reached(judged, place / len(batch))
        return Pass(judged, merged)


def _judge(suggestion: Suggestion, topics: list[Topic], open_chat: OpenChat) -> bool:
    """Returns whether the topics were merged. Stores a failure before it raises LLMError or UnreadableAnswer."""
    try:
        answered = proposals.merge_judged_by(open_chat, suggestion.owner, topics)
    except (LLMError, UnreadableAnswer):
        call = AgentCall.objects.filter(
            owner=suggestion.owner_id, agent=merger.AGENT.name, topics=[topic.pk for topic in topics]
        ).latest("pk")
        Suggestion.objects.filter(pk=suggestion.pk).update(tries=suggestion.tries + 1)
        if call.outcome not in PASSING or suggestion.tries + 1 >= MOST_TRIES:
            # The merger does not ask again by itself.
            _opened(suggestion).update(call=call)
        raise
    return carry_out(suggestion, answered) is not None


def _live(suggestion: Suggestion) -> list[Topic]:
    """Returns the suggested topics in their stored order; none if one is retired or somebody decided meanwhile."""
    wanted = Suggestion.objects.filter(pk=suggestion.pk, state=Suggestion.State.OPEN)
    if not wanted.exclude(owner__consolidation=ChatUser.Consolidation.OFF).exists():
        return []
    found = Topic.objects.of(suggestion.owner_id).live().in_bulk(suggestion.topics)
    return [found[number] for number in suggestion.topics] if len(found) == len(suggestion.topics) else []


def unjudged() -> QuerySet[Suggestion]:
    """Open suggested merges that have neither a verdict nor a failed check and that nobody works on now; not those of
    chat users without consolidation."""
    kind, state = Suggestion.Kind.MERGE, Suggestion.State.OPEN
    rows = Suggestion.objects.filter(
        ~lease_holds("held_at", suggestions.LEASE), kind=kind, state=state, call=None, edit=None
    )
    return rows.exclude(owner__consolidation=ChatUser.Consolidation.OFF)


def _best(owner: ChatUser) -> QuerySet[Suggestion]:
    """Unjudged merges with the highest score first; those whose questions failed come last."""
    return unjudged().filter(owner=owner).select_related("owner").order_by("tries", "-score", "-pk")


# The merger's verdict on a suggested merge, stored in the suggestion's evidence.

_KEPT = "merger"


class Check(Enum):
    """The state of the merger's check of a suggestion."""

    WAITING = "waiting"
    JUDGED = "judged"
    FAILED = "failed"


def check_of(suggestion: Suggestion) -> Check:
    """A failed check is left to people: they may repeat it, or decide without it."""
    if verdict_of(suggestion):
        return Check.JUDGED
    return Check.FAILED if suggestion.call_id else Check.WAITING


def verdict_of(suggestion: Suggestion) -> MergeVerdict | None:
    """The merger's verdict on exactly these topics; None without one."""
    return verdict_in(suggestion.evidence)


def verdict_in(evidence: Mapping[str, Any]) -> MergeVerdict | None:
    kept = evidence.get(_KEPT)
    return MergeVerdict(**kept) if kept else None


def evidence_with(suggestion: Suggestion, verdict: MergeVerdict) -> dict[str, Any]:
    return {**suggestion.evidence, _KEPT: asdict(verdict)}
