"""Finds what people decided about facts and people, because the archivist must not change it.

A change was made by the machine if its actor is the archivist and it names the call that it carries out. Every other
change was made or confirmed by a person, or by a program on a person's behalf.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q, QuerySet

from memoryapp.engine.agents import archivist
from memoryapp.models import ChatUser, Finding, KnowledgeEdit

ARCHIVIST = archivist.AGENT.name
BY_MACHINE = Q(actor=ARCHIVIST, call__isnull=False)


def is_machine_made(owner: ChatUser, noun: str, number: int) -> bool:
    """Whether the archivist made the row and only the archivist changed it since."""
    changes = KnowledgeEdit.objects.filter(owner=owner, noun=noun, after__has_key=str(number))
    return changes.filter(BY_MACHINE).exists() and not changes.exclude(BY_MACHINE).exists()


def withdrawn(owner: ChatUser, noun: str) -> Iterator[tuple[int, dict[str, Any], dict[str, Any] | None]]:
    """Yields a row's number, the values that a person removed, and the new values, None if the row was deleted."""
    changes: QuerySet[KnowledgeEdit] = KnowledgeEdit.objects.filter(owner=owner, noun=noun).exclude(BY_MACHINE)
    for before, after in changes.values_list("before", "after").iterator():
        for number, values in before.items():
            if values:
                yield int(number), values, after.get(number)


def rejected(owner: ChatUser, noun: str) -> QuerySet[Finding]:
    return Finding.objects.filter(owner=owner, noun=noun, state=Finding.State.REJECTED)


def reworded(owner: ChatUser, noun: str) -> QuerySet[Finding]:
    """Findings that a person confirmed, and whose words that person may have changed."""
    decided = Finding.objects.filter(owner=owner, noun=noun, state=Finding.State.CONFIRMED)
    return decided.exclude(decided_by=ARCHIVIST)
