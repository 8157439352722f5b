"""The queue of suggestions as people work through it: one at a time, each leased to the person who looks at it.

A lease ends two minutes after its holder's last request, so nobody has to release it. The first decision counts.
Suggestions about a topic that was retired meanwhile are closed, and opened again when the topic comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memoryapp.curation.change import MERGER
from memoryapp.curation.deciding import SuggestionDecided, close, decision_words
from memoryapp.curation.settling import settle
from memoryapp.curation.undoing import in_effect, undo
from memoryapp.models import ChatUser, Suggestion, Topic, TopicEdit
from memoryapp.operations.waits import lease_holds

LEASE = timedelta(minutes=2)

State = Suggestion.State


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How many suggestions are open, and how many people have decided."""

    open: int
    decided: int


def opened(owner: ChatUser) -> QuerySet[Suggestion]:
    """Open suggestions, best first."""
    rows = Suggestion.objects.filter(owner=owner, state=State.OPEN)
    return rows.select_related("held_by").order_by("-score", "-pk")


def progress(owner: ChatUser) -> QueueProgress:
    rows = Suggestion.objects.filter(owner=owner).exclude(decided_by=MERGER)
    return QueueProgress(
        rows.filter(state=State.OPEN).count(), rows.filter(state__in=(State.ACCEPTED, State.NEVER)).count()
    )


def topics_of(suggestions: Iterable[Suggestion]) -> dict[int, Topic]:
    """The topics they are about, by number: one query."""
    wanted = {(each.owner_id, number) for each in suggestions for number in each.topics}
    owners = {owner for owner, _number in wanted}
    return Topic.objects.filter(owner__in=owners).in_bulk({number for _owner, number in wanted})


def holder(suggestion: Suggestion) -> User | None:
    """The person who works on it now."""
    holds = suggestion.held_at is not None and abs(timezone.now() - suggestion.held_at) <= LEASE
    return suggestion.held_by if holds else None


def lease(suggestion: Suggestion, user: User) -> User | None:
    """Leases the suggestion to the user for two minutes, or renews the lease. Returns the holder.

    The holder is somebody else if they were first, and nobody if the suggestion is no longer open.
    """
    free = Suggestion.objects.filter(_free_for(user), pk=suggestion.pk, state=State.OPEN)
    free.update(held_by=user, held_at=timezone.now())
    suggestion.refresh_from_db(fields=("state", "held_by", "held_at"))
    return holder(suggestion)


def release(suggestion: Suggestion, user: User) -> None:
    """Ends the lease of this user, if they hold it."""
    Suggestion.objects.filter(pk=suggestion.pk, held_by=user).update(held_by=None, held_at=None)


@transaction.atomic
def next_open(owner: ChatUser, user: User, after: Suggestion | None = None) -> Suggestion | None:
    """The best suggestion, or the one after ``after``, that nobody else holds; it is leased to this user.

    After the last one it continues with the first.
    """
    settle(owner)
    free = opened(owner).filter(_free_for(user)).select_for_update(skip_locked=True, of=("self",))
    found = None
    if after is not None:
        found = free.filter(Q(score__lt=after.score) | Q(score=after.score, pk__lt=after.pk)).first()
    found = found or free.first()
    if found is not None:
        found.held_by, found.held_at = user, timezone.now()
        found.save(update_fields=("held_by", "held_at"))
    return found


def _free_for(user: User) -> Q:
    return Q(held_by=None) | Q(held_by=user) | ~lease_holds("held_at", LEASE)


def decide(suggestion: Suggestion, state: Suggestion.State, *, actor: str, edit: TopicEdit | None = None) -> Suggestion:
    """Closes one suggestion as ``close`` does. Raises SuggestionDecided."""
    return close(suggestion.owner, [suggestion], state, actor=actor, edit=edit)[0]


@transaction.atomic
def take_back(suggestion: Suggestion, *, actor: str) -> Suggestion:
    """Undoes the edit that accepted the suggestion, if it is in effect, and opens the suggestion again.

    Raises Depends when later edits depend on that edit, SuggestionDecided when the topics no longer exist.
    """
    edit = suggestion.edit
    if edit is not None and in_effect(suggestion.owner_id, [edit.pk]).get(edit.pk):
        undo(suggestion.owner, edit, actor=actor)
    return reopen(suggestion)


@transaction.atomic
def reopen(suggestion: Suggestion) -> Suggestion:
    """Takes back a decision that changed no topics; others are taken back by ``curation.undo`` of their edit.

    Raises SuggestionDecided when that edit is in effect, or the topics no longer exist.
    """
    Suggestion.objects.filter(pk=suggestion.pk, edit=None).update(state=State.OPEN, decided_by="", decided_at=None)
    settle(suggestion.owner)
    suggestion.refresh_from_db()
    if suggestion.state != State.OPEN:
        raise SuggestionDecided(decision_words(suggestion))
    return suggestion
