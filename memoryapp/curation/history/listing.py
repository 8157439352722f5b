"""The list of all changes, filtered and divided into pages. Two tables hold the history, so a page consists of the
first rows of each beyond the cursor, merged: at the end of a million changes it costs as much as at the start."""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, NamedTuple

from django.db import transaction
from django.db.models import Count, F, Func, IntegerField, Max, Min, Q, QuerySet, Value, Window
from django.db.models.functions import RowNumber

from memoryapp import curation
from memoryapp.curation import MERGER, knowledge
from memoryapp.curation import change as chains
from memoryapp.curation.change import PROGRAM
from memoryapp.curation.topic_writer import lock_owner
from memoryapp.models import ChatUser, EditedTopic, GuardSpot, ImportBatch, KnowledgeEdit, Message, Topic, TopicEdit

# A change as a list shows it: what it changed, whether it is in effect, and what took it back.
#
# The same for topics and for people, facts and artifacts; a list needs the same few queries whatever it shows.

Record = TopicEdit | KnowledgeEdit
Source = Literal["change", "edit"]

MOST_TOPICS_SHOWN = 12


class Cursor(NamedTuple):
    """A position in the list; entries are ordered by it, the greatest first."""

    at: datetime
    source: Source
    pk: int


def cursor_of(record: Record) -> Cursor:
    return Cursor(record.at, "edit" if isinstance(record, TopicEdit) else "change", record.pk)


@dataclass(frozen=True, slots=True)
class Topics:
    """One side of an edit: its first topics, and how many there are."""

    shown: tuple[Topic, ...] = ()
    count: int = 0

    @property
    def more(self) -> int:
        return self.count - len(self.shown)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One change; ``stands`` says whether it is in effect, ``undone_by`` what took it back first.

    ``is_again`` that it took back an undo, so that the matter is again what it was made.

    ``moved`` is how many messages a move took to another topic. ``names`` are those of the people, facts and artifacts
    concerned, by number; ``there`` are those that exist today."""

    record: Record
    stands: bool
    out: Topics = Topics()
    put: Topics = Topics()
    moved: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    there: frozenset[str] = frozenset()
    is_again: bool = False

    @property
    def cursor(self) -> Cursor:
        return cursor_of(self.record)

    @property
    def source(self) -> Source:
        return "edit" if isinstance(self.record, TopicEdit) else "change"

    @property
    def is_unwatched_merge(self) -> bool:
        """Whether the program merged topics without a person."""
        return self.record.kind == TopicEdit.Kind.MERGE and self.record.actor == curation.MERGER

    @property
    def takes_back(self) -> bool:
        """Whether it is an undo of a change, and not the undo of an undo, which makes the change again."""
        return self.record.kind == TopicEdit.Kind.UNDO and not self.is_again

    @property
    def undone_by(self) -> Record | None:
        name = "topicedit" if isinstance(self.record, TopicEdit) else "knowledgeedit"
        return None if self.stands else getattr(self.record, name, None)

    @property
    def can_be_undone(self) -> bool:
        # Messages that a rule set aside are kept on a page of their own, and not set aside again by hand.
        record = self.record
        first = (record.undoes if isinstance(record, TopicEdit) else None) or record
        is_of_rule = first.kind == TopicEdit.Kind.WITHDRAW and not first.batch_id
        return self.stands and record.kind != TopicEdit.Kind.ARCHIVE and not is_of_rule


def entries(owner: ChatUser, records: Sequence[Record]) -> list[HistoryEntry]:
    """What a list shows of each record, in seven queries for any number of them."""
    edits = [record.pk for record in records if isinstance(record, TopicEdit)]
    changes = [record for record in records if isinstance(record, KnowledgeEdit)]
    edited = chains.links(TopicEdit, owner.pk, edits) if edits else {}
    changed = chains.links(KnowledgeEdit, owner.pk, [change.pk for change in changes]) if changes else {}
    sides = _sides(owner, edits) if edits else {}
    moved = curation.moved_counts(owner.pk, edits) if edits else {}
    names, there = _names(owner, changes)
    return [
        HistoryEntry(
            record,
            edited[record.pk].stands,
            sides.get((record.pk, "out"), Topics()),
            sides.get((record.pk, "in"), Topics()),
            moved.get(record.pk),
            is_again=edited[record.pk].is_again,
        )
        if isinstance(record, TopicEdit)
        else HistoryEntry(
            record,
            changed[record.pk].stands,
            names=names[record.pk],
            there=there[record.noun],
            is_again=changed[record.pk].is_again,
        )
        for record in records
    ]


def entry(owner: ChatUser, record: Record) -> HistoryEntry:
    return entries(owner, [record])[0]


def _sides(owner: ChatUser, edits: Sequence[int]) -> dict[tuple[int, str], Topics]:
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
    """The names of the rows of each change, today or when they existed, and by noun which of them exist."""
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


def _called(values: Mapping[str, object]) -> str:
    return next((str(values[name])[:80] for name in ("display_name", "content", "name") if values.get(name)), "")


MOST_ACTORS = 100
# Changes that nobody requested.
AUTOMATIC = Q(kind=TopicEdit.Kind.ARCHIVE) | Q(actor__in=(PROGRAM, MERGER))
MODELS: Mapping[Source, type[Record]] = {"change": KnowledgeEdit, "edit": TopicEdit}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which entries are wanted. ``noun`` is ``topic`` or a noun of KnowledgeEdit; ``until`` is not included. ``number``
    identifies one row of that noun; ``words`` are searched for in reasons. ``by_people`` leaves out automatic changes.
    ``call`` is the number of the agent's call that they carry out."""

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
    # The conditions that both tables understand.
    for name, value in [
        ("kind", by.kind),
        ("actor", by.actor),
        ("at__gte", by.since),
        ("at__lt", by.until),
        ("reason__icontains", by.words),
        ("call", by.call),
    ]:
        if value:
            wanted &= Q(**{name: value})
    return wanted


def _narrowed(owner: ChatUser, by: Narrowing) -> dict[Source, QuerySet[Record]]:
    wanted = conditions(owner, by)
    found: dict[Source, QuerySet[Record]] = {}
    if by.noun in ("", "topic"):
        edits = TopicEdit.objects.filter(wanted).select_related("topicedit", "undoes", "call").defer("call__events")
        edits = edits.exclude(AUTOMATIC) if by.by_people else edits
        found["edit"] = edits if by.number is None else edits.filter(editedtopic__topic=by.number)
    changes = KnowledgeEdit.objects.filter(wanted).select_related("knowledgeedit", "call").defer("call__events")
    changes = changes.filter(noun=by.noun) if by.noun else changes
    found["change"] = changes if by.number is None else changes.filter(after__has_key=str(by.number))
    return found


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


# Automatic changes between the entries of a page, counted, so that a list can fold them.


@dataclass(frozen=True, slots=True)
class AutomaticChanges:
    """``count`` consecutive changes of the program, without one of a person between them; ``merges`` of them are
    merges, from ``first`` to ``last``, both included."""

    count: int
    merges: int
    first: datetime
    last: datetime

    @property
    def archives(self) -> int:
        return self.count - self.merges


def automatic_changes(owner: ChatUser, narrowing: Narrowing, shown: HistoryPage) -> list[AutomaticChanges | None]:
    """The automatic changes after each entry of the page, newest first, and last those before the oldest entry.
    ``shown`` lists only changes of people. Changes between two pages are counted on the older page. Two queries, three
    for a page that is not the first."""
    if narrowing.noun not in ("", "topic") or narrowing.number is not None:
        return [None] * (len(shown.entries) + 1)
    cursors = [entry.cursor for entry in shown.entries]
    by_place = _counted(owner, _within(owner, narrowing, shown), [cursor.at for cursor in reversed(cursors)])
    oldest = None if shown.has_after else by_place.get(0)
    return [*(by_place.get(place) for place in range(len(cursors), 0, -1)), oldest]


def _within(owner: ChatUser, narrowing: Narrowing, shown: HistoryPage) -> Narrowing:
    """Without changes that the previous page counts, and with no more of the next page's than necessary."""
    ends = [entry.cursor for entry in shown.entries]
    newer = neighbour_at(owner, narrowing, ends[0]) if ends and shown.has_before else None
    until = min(filter(None, (newer, narrowing.until)), default=None)
    since = max(filter(None, (ends[-1].at if ends and shown.has_after else None, narrowing.since)), default=None)
    return replace(narrowing, until=until, since=since)


def _counted(owner: ChatUser, narrowing: Narrowing, bounds: Sequence[datetime]) -> dict[int, AutomaticChanges]:
    """By position, how many of the ascending ``bounds`` are not later than each change."""
    place = Func(F("at"), Value(list(bounds)), function="width_bucket", output_field=IntegerField())
    rows = TopicEdit.objects.filter(AUTOMATIC, conditions(owner, narrowing)).order_by()
    rows = rows.annotate(place=place if bounds else Value(0, IntegerField()))
    found = rows.values("place").annotate(
        n=Count("pk"), merges=Count("pk", Q(actor=MERGER)), first=Min("at"), last=Max("at")
    )
    return {
        row["place"]: AutomaticChanges(row["n"], row["merges"], row["first"], row["last"]) for row in found if row["n"]
    }


# Imports as part of the history: what became of their messages, and what withdrawing one would do.


@dataclass(frozen=True, slots=True)
class Import:
    """An import with how many of its messages are in topics, in none, withdrawn, held by the guard, and masked by it;
    ``is_of_wordings`` says that it brought changed texts, which are taken back in the history, ``is_distilled`` that
    people, facts or artifacts came with it."""

    batch: ImportBatch
    is_of_wordings: bool
    is_distilled: bool
    archived: int = 0
    active: int = 0
    withdrawn: int = 0
    held: int = 0
    masked: int = 0

    @property
    def can_be_withdrawn(self) -> bool:
        return bool(self.archived or self.active or self.is_distilled) and not self.is_of_wordings


def imports(batches: Sequence[ImportBatch]) -> list[Import]:
    """What became of the messages of these imports."""
    rows = Message.objects.filter(batch__in=[batch.pk for batch in batches]).order_by()
    held = Q(is_withdrawn=True) & _with(GuardSpot.State.HELD)
    counted = {
        number: counts
        for number, *counts in rows.values_list("batch").annotate(
            archived=Count("pk", Q(topic__isnull=False)),
            active=Count("pk", Q(topic__isnull=True, is_withdrawn=False)),
            withdrawn=Count("pk", Q(is_withdrawn=True) & ~held),
            held=Count("pk", held),
            masked=Count("pk", _with(GuardSpot.State.MASKED)),
        )
    }
    rewordings = TopicEdit.objects.filter(batch__in=batches, kind=TopicEdit.Kind.REWORD)
    wordings = set(rewordings.values_list("batch", flat=True))
    created = KnowledgeEdit.objects.filter(batch__in=batches, kind=KnowledgeEdit.Kind.CREATE)
    distilled = set(created.order_by().values_list("batch", flat=True).distinct())
    return [Import(batch, batch.pk in wordings, batch.pk in distilled, *counted.get(batch.pk, ())) for batch in batches]


def _with(state: str) -> Q:
    return Q(pk__in=GuardSpot.objects.filter(state=state).values("message"))


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What withdrawing an import would do: ``messages`` are withdrawn, ``active`` ones of them are in no topic.
    ``shrinking`` topics keep some messages, ``left`` says how many each; ``vanishing`` topics keep none. ``rows``
    counts people, facts and artifacts that came with it and that nobody changed since; they are removed."""

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
    counts = imports([batch])[0]
    left = dict(
        Message.objects.of(owner)
        .filter(topic__in=change.out)
        .exclude(batch=batch)
        .order_by()
        .values_list("topic")
        .annotate(n=Count("pk"))
    )
    vanishing = [number for number in change.out if number not in left]
    return Withdrawal(counts.archived + counts.active, counts.active, _first(list(left)), _first(vanishing), left, rows)


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
