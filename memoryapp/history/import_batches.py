"""Imports as part of the history: what became of their messages, and what withdrawing one would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, Q

from memoryapp import curation, knowledge
from memoryapp.curation.swapping import lock_owner
from memoryapp.history.entries import MOST_TOPICS_SHOWN, Topics
from memoryapp.models import ChatUser, ImportBatch, KnowledgeEdit, Message, Topic, TopicEdit


@dataclass(frozen=True, slots=True)
class Import:
    """An import with how many of its messages are in topics, in none, and withdrawn; ``is_of_wordings`` says that it
    brought changed texts, which are taken back in the history, ``is_distilled`` that people, facts or artifacts came
    with it."""

    batch: ImportBatch
    archived: int
    active: int
    withdrawn: int
    is_of_wordings: bool = False
    is_distilled: bool = False

    @property
    def can_be_withdrawn(self) -> bool:
        return bool(self.archived or self.active or self.is_distilled) and not self.is_of_wordings


def imports(batches: Sequence[ImportBatch]) -> list[Import]:
    """What became of the messages of these imports."""
    rows = Message.objects.filter(batch__in=[batch.pk for batch in batches]).order_by().values("batch")
    counted = {
        row["batch"]: (row["archived"], row["active"], row["withdrawn"])
        for row in rows.annotate(
            archived=Count("pk", Q(topic__isnull=False)),
            active=Count("pk", Q(topic__isnull=True, is_withdrawn=False)),
            withdrawn=Count("pk", Q(is_withdrawn=True)),
        )
    }
    rewordings = TopicEdit.objects.filter(batch__in=batches, kind=TopicEdit.Kind.REWORD)
    wordings = set(rewordings.values_list("batch", flat=True))
    created = KnowledgeEdit.objects.filter(batch__in=batches, kind=KnowledgeEdit.Kind.CREATE)
    distilled = set(created.order_by().values_list("batch", flat=True).distinct())
    return [
        Import(batch, *counted.get(batch.pk, (0, 0, 0)), batch.pk in wordings, batch.pk in distilled)
        for batch in batches
    ]


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What withdrawing an import would do: ``messages`` are withdrawn, ``active`` ones of them are in no topic.

    ``shrinking`` topics keep some messages, ``left`` says how many each; ``vanishing`` topics keep none. ``rows``
    counts people, facts and artifacts that came with it and that nobody changed since; they are removed.
    """

    messages: int
    active: int
    shrinking: Topics
    vanishing: Topics
    left: Mapping[int, int]
    rows: int = 0


def withdrawal(owner: ChatUser, batch: ImportBatch) -> Withdrawal:
    """Reads only. Raises CurationError when there is nothing to withdraw."""
    rows = sum(map(len, knowledge.brought(owner, batch).values()))
    change = curation.plan_withdraw(owner, batch, has_rows=bool(rows))
    counted = imports([batch])[0]
    left = dict(
        Message.objects.of(owner)
        .filter(topic__in=change.out)
        .exclude(batch=batch)
        .order_by()
        .values_list("topic")
        .annotate(n=Count("pk"))
    )
    vanishing = [number for number in change.out if number not in left]
    return Withdrawal(
        counted.archived + counted.active, counted.active, _first(list(left)), _first(vanishing), left, rows
    )


@transaction.atomic
def withdraw(owner: ChatUser, batch: ImportBatch, *, actor: str, reason: str = "") -> TopicEdit:
    """Withdraws what the import brought, messages and everything that came with them; ``undo`` of the edit reverses
    that. Raises CurationError."""
    lock_owner(owner)
    rows = knowledge.take_back(owner, batch, actor=actor, reason=reason)
    return curation.withdraw(owner, batch, actor=actor, reason=reason, has_rows=bool(rows))


def _first(ids: Sequence[int]) -> Topics:
    rows = Topic.objects.filter(pk__in=ids).order_by("started_at", "pk")
    return Topics(tuple(rows[:MOST_TOPICS_SHOWN]), len(ids))
