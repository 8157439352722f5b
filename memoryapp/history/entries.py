"""A change as a list shows it: what it changed, whether it is in effect, and what took it back.

The same for topics and for people, facts and artifacts; a list needs the same few queries whatever it shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from memoryapp import curation, knowledge
from memoryapp.curation import chains
from memoryapp.models import ChatUser, EditedTopic, KnowledgeEdit, Topic, TopicEdit

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
    concerned, by number; ``there`` are those that exist today.
    """

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
        return None if self.stands else _undoer(self.record)

    @property
    def can_be_undone(self) -> bool:
        return self.stands and self.record.kind != TopicEdit.Kind.ARCHIVE


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


def _undoer(record: Record) -> Record | None:
    return getattr(record, "topicedit" if isinstance(record, TopicEdit) else "knowledgeedit", None)


def _sides(owner: ChatUser, edits: Sequence[int]) -> dict[tuple[int, str], Topics]:
    """The first topics on each side of each edit, oldest first."""
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
