"""The list of all changes, filtered and divided into pages.

Two tables hold the history, so a page consists of the first rows of each beyond the cursor, merged: at the end of a
million changes it costs as much as at the start.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from memoryapp.curation import MERGER
from memoryapp.history.entries import Cursor, HistoryEntry, Record, Source, cursor_of, entries
from memoryapp.ingestion.archiving import PROGRAM
from memoryapp.models import ChatUser, KnowledgeEdit, TopicEdit

MOST_ACTORS = 100
# Changes that nobody requested.
AUTOMATIC = Q(kind=TopicEdit.Kind.ARCHIVE) | Q(actor__in=(PROGRAM, MERGER))
MODELS: Mapping[Source, type[Record]] = {"change": KnowledgeEdit, "edit": TopicEdit}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which entries are wanted. ``noun`` is ``topic`` or a noun of KnowledgeEdit; ``until`` is not included.

    ``number`` identifies one row of that noun; ``words`` are searched for in reasons. ``by_people`` leaves out
    automatic changes. ``call`` is the number of the agent's call that they carry out.
    """

    kind: str = ""
    noun: str = ""
    actor: str = ""
    since: datetime | None = None
    until: datetime | None = None
    number: int | None = None
    words: str = ""
    by_people: bool = False
    call: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    entries: tuple[HistoryEntry, ...]
    has_before: bool = False
    has_after: bool = False


def page(
    owner: ChatUser, narrowing: Narrowing, size: int, *, after: Cursor | None = None, before: Cursor | None = None
) -> HistoryPage:
    """The newest entries older than ``after``, or the ones next newer than ``before``, newest first."""
    backwards = before is not None
    found = [
        list(_beyond(rows, source, before or after, newer=backwards)[: size + 1])
        for source, rows in _narrowed(owner, narrowing).items()
    ]
    merged = list(heapq.merge(*found, key=cursor_of, reverse=not backwards))
    shown = merged[:size][::-1] if backwards else merged[:size]
    has_more = len(merged) > size
    return HistoryPage(
        tuple(entries(owner, shown)),
        has_before=has_more if backwards else after is not None and bool(shown),
        has_after=bool(shown) if backwards else has_more,
    )


def actors(owner: ChatUser) -> list[str]:
    """The names of everybody who changed anything."""
    found: set[str] = set()
    for model in MODELS.values():
        rows = model._default_manager.filter(owner=owner).order_by("actor")
        found.update(rows.values_list("actor", flat=True).distinct()[:MOST_ACTORS])
    return sorted(found, key=str.casefold)[:MOST_ACTORS]


def neighbour_at(owner: ChatUser, narrowing: Narrowing, cursor: Cursor) -> datetime | None:
    """The time of the entry that is next newer than the cursor."""
    found = (
        _beyond(rows, source, cursor, newer=True).values_list("at", flat=True).first()
        for source, rows in _narrowed(owner, narrowing).items()
    )
    return min(filter(None, found), default=None)


def conditions(owner: ChatUser, by: Narrowing) -> Q:
    """What both tables are asked for alike."""
    wanted = Q(owner=owner)
    for name, value in _shared_conditions(by):
        if value:
            wanted &= Q(**{name: value})
    return wanted


def _narrowed(owner: ChatUser, by: Narrowing) -> dict[Source, QuerySet[Record]]:
    wanted = conditions(owner, by)
    found: dict[Source, QuerySet[Record]] = {}
    if by.noun in ("", "topic"):
        edits = TopicEdit.objects.filter(wanted).select_related("topicedit", "call").defer("call__events")
        edits = edits.exclude(AUTOMATIC) if by.by_people else edits
        found["edit"] = edits if by.number is None else edits.filter(editedtopic__topic=by.number)
    changes = KnowledgeEdit.objects.filter(wanted).select_related("knowledgeedit", "call").defer("call__events")
    changes = changes.filter(noun=by.noun) if by.noun else changes
    found["change"] = changes if by.number is None else changes.filter(after__has_key=str(by.number))
    return found


def _shared_conditions(by: Narrowing) -> list[tuple[str, object]]:
    """The conditions that both tables understand."""
    return [
        ("kind", by.kind),
        ("actor", by.actor),
        ("at__gte", by.since),
        ("at__lt", by.until),
        ("reason__icontains", by.words),
        ("call", by.call),
    ]


def _beyond(rows: QuerySet[Record], source: Source, cursor: Cursor | None, *, newer: bool) -> QuerySet[Record]:
    rows = rows.order_by("at", "pk") if newer else rows.order_by("-at", "-pk")
    if cursor is None:
        return rows
    side = "gt" if newer else "lt"
    beyond = Q(**{f"at__{side}": cursor.at})
    if source == cursor.source:
        beyond |= Q(**{"at": cursor.at, f"pk__{side}": cursor.pk})
    elif (source > cursor.source) == newer:
        beyond |= Q(at=cursor.at)
    return rows.filter(beyond)
