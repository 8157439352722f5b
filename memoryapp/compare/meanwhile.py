"""What changed in the memory between the searches of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from memoryapp.explain.why_not import searched_at_of
from memoryapp.history import HistoryEntry, Narrowing, page
from memoryapp.models import ImportBatch, KnowledgeEdit, Run, Topic, TopicEdit

SHOWN = 12


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Counts of what is new, and the last changes, newest first. ``messages`` are those that imports brought, ``edits``
    leaves out those that only archived; ``more`` changes are not listed."""

    since: datetime
    until: datetime
    topics: int
    edits: int
    facts: int
    people: int
    messages: int
    entries: Sequence[HistoryEntry]
    more: bool

    def __bool__(self) -> bool:
        return bool(self.topics or self.edits or self.facts or self.people or self.messages or self.entries)


def meanwhile(one: Run, other: Run) -> Meanwhile:
    """The changes between the searches of two runs, whichever was earlier; a fork may have replayed its parent's."""
    since, until = sorted((searched_at_of(one), searched_at_of(other)))
    owner = one.owner
    within = {"owner": owner, "at__gte": since, "at__lt": until}
    imported = ImportBatch.objects.filter(owner=owner, started_at__gte=since, started_at__lt=until)
    changes = KnowledgeEdit.objects.filter(**within)
    shown = page(owner, Narrowing(since=since, until=until), SHOWN)
    return Meanwhile(
        since,
        until,
        topics=Topic.objects.of(owner).filter(created_at__gte=since, created_at__lt=until).count(),
        edits=TopicEdit.objects.filter(**within).exclude(kind=TopicEdit.Kind.ARCHIVE).count(),
        facts=changes.filter(noun=KnowledgeEdit.Noun.FACT).count(),
        people=changes.filter(noun=KnowledgeEdit.Noun.PERSON).count(),
        messages=imported.aggregate(n=Sum("added"))["n"] or 0,
        entries=shown.entries,
        more=shown.has_after,
    )
