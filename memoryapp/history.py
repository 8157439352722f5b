"""Everything that was changed in a memory, topics and what was distilled from them in one list.

Two tables hold the history, so a page of it is the first rows of each beyond the cursor, merged: as cheap at the
end of a million edits as at the start. A page costs the same few queries whatever it shows.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from django.db import transaction
from django.db.models import Count, F, Max, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils.translation import gettext as _

from memoryapp import chains, curation, knowledge
from memoryapp.curation import CurationError, Depends
from memoryapp.ingestion import ARCHIVIST
from memoryapp.models import ChatUser, EditedTopic, ImportBatch, KnowledgeEdit, Message, Topic, TopicEdit

Record = TopicEdit | KnowledgeEdit
Source = Literal["change", "edit"]

MOST_TOPICS_SHOWN = 12
MOST_ACTORS = 100
# What nobody asked for; archiving changes nothing that a person made.
MACHINES = Q(kind=TopicEdit.Kind.ARCHIVE) | Q(actor=ARCHIVIST)
MODELS: Mapping[Source, type[Record]] = {"change": KnowledgeEdit, "edit": TopicEdit}


class Cursor(NamedTuple):
    """A place in the list; entries are ordered by it, the greatest first."""

    at: datetime
    source: Source
    pk: int


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which entries are wanted; ``noun`` is ``topic`` or a noun of KnowledgeEdit, ``until`` is not included.

    ``number`` is one row's, of that noun; ``words`` are looked for in reasons. ``by_people`` leaves out what the
    program did by itself.
    """

    kind: str = ""
    noun: str = ""
    actor: str = ""
    since: datetime | None = None
    until: datetime | None = None
    number: int | None = None
    words: str = ""
    by_people: bool = False


@dataclass(frozen=True, slots=True)
class Topics:
    """One side of an edit: its first topics, and how many there are."""

    shown: tuple[Topic, ...] = ()
    count: int = 0

    @property
    def more(self) -> int:
        return self.count - len(self.shown)


@dataclass(frozen=True, slots=True)
class Entry:
    """One change; ``stands`` tells whether what it did is so today, ``undone_by`` what took it back first.

    ``moved`` is how many messages a move took to another topic.

    ``names`` are those of the people, facts and artifacts it is about, by number; ``there`` those there are today.
    """

    record: Record
    stands: bool
    out: Topics = Topics()
    put: Topics = Topics()
    moved: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    there: frozenset[str] = frozenset()

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.record.at, self.source, self.record.pk)

    @property
    def source(self) -> Source:
        return "edit" if isinstance(self.record, TopicEdit) else "change"

    @property
    def undone_by(self) -> Record | None:
        return None if self.stands else _undoer(self.record)

    @property
    def can_be_undone(self) -> bool:
        return self.stands and self.record.kind != TopicEdit.Kind.ARCHIVE


@dataclass(frozen=True, slots=True)
class Page:
    entries: tuple[Entry, ...]
    has_before: bool = False
    has_after: bool = False


def page(
    owner: ChatUser, narrowing: Narrowing, size: int, *, after: Cursor | None = None, before: Cursor | None = None
) -> Page:
    """The newest entries older than ``after``, or the ones next newer than ``before``, newest first."""
    backwards = before is not None
    found = [
        list(_beyond(rows, source, before or after, newer=backwards)[: size + 1])
        for source, rows in _narrowed(owner, narrowing).items()
    ]
    merged = list(heapq.merge(*found, key=_place, reverse=not backwards))
    shown = merged[:size][::-1] if backwards else merged[:size]
    has_more = len(merged) > size
    return Page(
        tuple(entries(owner, shown)),
        has_before=has_more if backwards else after is not None and bool(shown),
        has_after=bool(shown) if backwards else has_more,
    )


def entries(owner: ChatUser, records: Sequence[Record]) -> list[Entry]:
    """What a list tells of each record, in seven queries for any number of them."""
    edits = [record.pk for record in records if isinstance(record, TopicEdit)]
    changes = [record for record in records if isinstance(record, KnowledgeEdit)]
    stands = chains.in_effect(TopicEdit, owner.pk, edits) if edits else {}
    changed = chains.in_effect(KnowledgeEdit, owner.pk, [change.pk for change in changes]) if changes else {}
    sides = _sides(owner, edits) if edits else {}
    moved = curation.moved(owner.pk, edits) if edits else {}
    names, there = _names(owner, changes)
    return [
        Entry(
            record,
            stands[record.pk],
            sides.get((record.pk, "out"), Topics()),
            sides.get((record.pk, "in"), Topics()),
            moved.get(record.pk),
        )
        if isinstance(record, TopicEdit)
        else Entry(record, changed[record.pk], names=names[record.pk], there=there[record.noun])
        for record in records
    ]


def entry(owner: ChatUser, record: Record) -> Entry:
    return entries(owner, [record])[0]


def actors(owner: ChatUser) -> list[str]:
    """Who changed anything, by name."""
    found: set[str] = set()
    for model in MODELS.values():
        rows = model._default_manager.filter(owner=owner).order_by("actor")
        found.update(rows.values_list("actor", flat=True).distinct()[:MOST_ACTORS])
    return sorted(found, key=str.casefold)[:MOST_ACTORS]


def machines(owner: ChatUser) -> tuple[int, datetime | None]:
    """How often the program changed topics by itself, and when it did last."""
    edits = TopicEdit.objects.filter(MACHINES, owner=owner)
    found = edits.aggregate(count=Count("pk"), last=Max("at"))
    return found["count"], found["last"]


def standing_between(owner: ChatUser, by: str, since: datetime, until: datetime) -> tuple[list[Record], list[Record]]:
    """What ``undo_between`` would take back, and what stands in its way, each newest first.

    Raises CurationError when it is too much.
    """
    topics, topics_blocking = curation.standing_between(owner, by, since, until)
    others, others_blocking = knowledge.standing_between(owner, by, since, until)
    return _newest_first([*topics, *others]), _newest_first([*topics_blocking, *others_blocking])


@transaction.atomic
def undo_between(
    owner: ChatUser, by: str, since: datetime, until: datetime, *, actor: str, reason: str = ""
) -> list[Record]:
    """Takes back all that ``by`` changed from ``since`` until before ``until``: all of it or nothing.

    Raises Depends with what stands in the way, CurationError when there is nothing to undo or too much.
    """
    wanted, blocking = standing_between(owner, by, since, until)
    if not wanted:
        raise CurationError(_("There is nothing of theirs to undo in that time."))
    if blocking:
        raise Depends(_("Later changes stand on these and have to be undone first."), blocking)
    made: list[Record] = []
    if any(isinstance(record, TopicEdit) for record in wanted):
        made += curation.undo_between(owner, by, since, until, actor=actor, reason=reason)
    if any(isinstance(record, KnowledgeEdit) for record in wanted):
        made += knowledge.undo_between(owner, by, since, until, actor=actor, reason=reason)
    return made


@dataclass(frozen=True, slots=True)
class Import:
    """An import with how many of its messages are in topics, in none, and withdrawn."""

    batch: ImportBatch
    archived: int
    active: int
    withdrawn: int

    @property
    def can_be_withdrawn(self) -> bool:
        return bool(self.archived or self.active)


def imports(batches: Sequence[ImportBatch]) -> list[Import]:
    """What became of the messages these imports brought."""
    rows = Message.objects.filter(batch__in=[batch.pk for batch in batches]).order_by().values("batch")
    counted = {
        row["batch"]: (row["archived"], row["active"], row["withdrawn"])
        for row in rows.annotate(
            archived=Count("pk", Q(topic__isnull=False)),
            active=Count("pk", Q(topic__isnull=True, is_withdrawn=False)),
            withdrawn=Count("pk", Q(is_withdrawn=True)),
        )
    }
    return [Import(batch, *counted.get(batch.pk, (0, 0, 0))) for batch in batches]


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What withdrawing an import would do: ``messages`` go, of them ``active`` ones that no topic holds.

    ``shrinking`` topics keep some of their messages, told with how many; ``vanishing`` ones were of it alone.
    """

    messages: int
    active: int
    shrinking: Topics
    vanishing: Topics
    left: Mapping[int, int]


def withdrawal(owner: ChatUser, batch: ImportBatch) -> Withdrawal:
    """Read only. Raises CurationError when there is nothing to withdraw."""
    change = curation.plan_withdraw(owner, batch)
    held = imports([batch])[0]
    left = dict(
        Message.objects.of(owner)
        .filter(topic__in=change.out)
        .exclude(batch=batch)
        .order_by()
        .values_list("topic")
        .annotate(n=Count("pk"))
    )
    vanishing = [number for number in change.out if number not in left]
    return Withdrawal(held.archived + held.active, held.active, _first(list(left)), _first(vanishing), left)


def _first(ids: Sequence[int]) -> Topics:
    rows = Topic.objects.filter(pk__in=ids).order_by("started_at", "pk")
    return Topics(tuple(rows[:MOST_TOPICS_SHOWN]), len(ids))


def _undoer(record: Record) -> Record | None:
    return getattr(record, "topicedit" if isinstance(record, TopicEdit) else "knowledgeedit", None)


def _place(record: Record) -> Cursor:
    return Cursor(record.at, "edit" if isinstance(record, TopicEdit) else "change", record.pk)


def _newest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=_place, reverse=True)


def _narrowed(owner: ChatUser, by: Narrowing) -> dict[Source, QuerySet[Record]]:
    said = Q(owner=owner)
    for name, value in _wanted(by):
        if value:
            said &= Q(**{name: value})
    found: dict[Source, QuerySet[Record]] = {}
    if by.noun in ("", "topic"):
        edits = TopicEdit.objects.filter(said).select_related("topicedit")
        edits = edits.exclude(MACHINES) if by.by_people else edits
        found["edit"] = edits if by.number is None else edits.filter(editedtopic__topic=by.number)
    if by.noun != "topic":
        changes = KnowledgeEdit.objects.filter(said).select_related("knowledgeedit")
        changes = changes.filter(noun=by.noun) if by.noun else changes
        found["change"] = changes if by.number is None else changes.filter(after__has_key=str(by.number))
    return found


def _wanted(by: Narrowing) -> list[tuple[str, object]]:
    """What both tables are asked for alike."""
    return [
        ("kind", by.kind),
        ("actor", by.actor),
        ("at__gte", by.since),
        ("at__lt", by.until),
        ("reason__icontains", by.words),
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


def _sides(owner: ChatUser, edits: Sequence[int]) -> dict[tuple[int, str], Topics]:
    """The first topics of each side of each edit, oldest first."""
    whole = [F("edit"), F("side")]
    listed = EditedTopic.objects.filter(owner=owner, edit__in=edits).annotate(
        place=Window(RowNumber(), partition_by=whole, order_by=[F("topic__started_at"), F("topic")]),
        all=Window(Count("pk"), partition_by=whole),
    )
    rows = listed.filter(place__lte=MOST_TOPICS_SHOWN).select_related("topic").order_by("edit", "side", "place")
    shown: dict[tuple[int, str], list[Topic]] = defaultdict(list)
    counts: dict[tuple[int, str], int] = {}
    for row in rows:
        shown[row.edit_id, row.side].append(row.topic)
        counts[row.edit_id, row.side] = row.all
    return {key: Topics(tuple(topics), counts[key]) for key, topics in shown.items()}


def _names(
    owner: ChatUser, changes: Sequence[KnowledgeEdit]
) -> tuple[dict[int, dict[str, str]], dict[str, frozenset[str]]]:
    """How the rows of each change are called, today or when they were there, and by noun which there are."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for change in changes:
        wanted[change.noun].update(int(number) for number in change.after)
    today = {
        noun: {str(row.pk): str(row) for row in knowledge.MODELS[noun]._default_manager.filter(owner=owner, pk__in=ids)}
        for noun, ids in wanted.items()
    }
    names = {
        change.pk: {
            number: today[change.noun].get(number) or _called(change.before[number] or change.after[number] or {})
            for number in change.after
        }
        for change in changes
    }
    return names, {noun: frozenset(found) for noun, found in today.items()}


def _called(said: Mapping[str, object]) -> str:
    return next((str(said[name])[:80] for name in ("display_name", "content", "name") if said.get(name)), "")
