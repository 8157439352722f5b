"""Undo of changes, of topics and of people, facts and artifacts alike: of one, or of all that one person made in a
period. The undo of a withdrawn import also brings back the rows that came with its messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby, islice

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import MERGER, CurationError, Depends, extraction, knowledge
from memoryapp.curation.change import in_effect
from memoryapp.curation.history.listing import Record, cursor_of
from memoryapp.curation.undoing import MOST_EDITS
from memoryapp.engine.agents import archivist
from memoryapp.models import ChatUser, KnowledgeEdit, TopicEdit


@transaction.atomic
def undo_with_dependents(owner: ChatUser, record: Record, *, actor: str, reason: str = "") -> list[Record]:
    """Undoes what depends on this change, newest first, and then it: all of them or none. Raises CurationError."""
    if isinstance(record, KnowledgeEdit):
        return [*knowledge.undo_with_dependents(owner, record, actor=actor, reason=reason)]
    made = curation.undo_with_dependents(owner, record, actor=actor, reason=reason)
    for edit in made:
        _turn_rows(edit, reason)
    return [*made]


@transaction.atomic
def undo(edit: TopicEdit, *, actor: str, reason: str = "") -> TopicEdit:
    """Takes back what the edit did. Raises Depends with the edits that have to be undone first, CurationError."""
    made = curation.undo(edit.owner, edit, actor=actor, reason=reason)
    _turn_rows(made, reason)
    return made


def _turn_rows(made: TopicEdit, reason: str) -> None:
    """The rows of an import are removed or brought back with its messages."""
    first = made
    while first.undoes is not None:
        first = first.undoes
    if first.kind != TopicEdit.Kind.WITHDRAW or made.batch is None:
        return
    if curation.in_effect(made.owner_id, [first.pk])[first.pk]:
        knowledge.take_back(made.owner, made.batch, actor=made.actor, reason=reason)
    else:
        knowledge.give_back(made.owner, made.batch, actor=made.actor, reason=reason)


def standing_between(owner: ChatUser, by: str, since: datetime, until: datetime) -> tuple[list[Record], list[Record]]:
    """What ``undo_between`` would undo, and what prevents it, newest first. Raises CurationError for too many."""
    topics, topics_blocking = curation.standing_between(owner, by, since, until)
    others, others_blocking = knowledge.standing_between(owner, by, since, until)
    return _newest_first([*topics, *others]), _newest_first([*topics_blocking, *others_blocking])


@transaction.atomic
def undo_between(
    owner: ChatUser, by: str, since: datetime, until: datetime, *, actor: str, reason: str = ""
) -> list[Record]:
    """Undoes everything that ``by`` changed from ``since`` until before ``until``: all of it or nothing. What waits
    from the same answers of the archivist is rejected. Raises Depends with the changes that prevent it, CurationError
    when there is nothing or too much to undo."""
    wanted, blocking = standing_between(owner, by, since, until)
    if not wanted:
        raise CurationError(_("This person made no change in that time that can be undone."))
    if blocking:
        raise Depends(_("Later changes depend on these and have to be undone first."), blocking)
    made: list[Record] = []
    if any(isinstance(record, TopicEdit) for record in wanted):
        made += curation.undo_between(owner, by, since, until, actor=actor, reason=reason)
    if any(isinstance(record, KnowledgeEdit) for record in wanted):
        made += knowledge.undo_between(owner, by, since, until, actor=actor, reason=reason)
    if by == archivist.AGENT.name:
        answers = {record.call_id for record in wanted if isinstance(record, KnowledgeEdit)}
        extraction.reject_answers(owner, answers, actor=actor)
    return made


def _newest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=cursor_of, reverse=True)


# Automatic merges and extraction by night, and the undo of all merges, or of all extraction, of a night.
#
# Archiving, which divides a chat into topics, is not undone: its messages would be in no topic.

EXTRACTOR = archivist.AGENT.name
MOST_NIGHTS = 7
_NOON = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Night:
    """``count`` changes in effect of the agent ``by`` (``MERGER`` or ``EXTRACTOR``), from ``first`` to ``last``, both
    included. ``is_whole`` is false if earlier ones of that night are left for another time."""

    by: str
    count: int
    first: datetime
    last: datetime
    is_whole: bool = True

    @property
    def is_extraction(self) -> bool:
        return self.by == EXTRACTOR

    @property
    def day(self) -> date:
        """The day on whose noon the night began."""
        return _day(self.first)

    @property
    def end(self) -> datetime:
        """The moment after its last change."""
        return self.last + timedelta(microseconds=1)


def nights(owner: ChatUser, by: str = MERGER) -> list[Night]:
    """The latest nights with changes of ``by`` in effect, newest first; each lasts from noon to noon on the reader's
    clock. Two queries. What is earlier than the last 500 changes is left out until those are undone."""
    model: type[TopicEdit | KnowledgeEdit] = KnowledgeEdit if by == EXTRACTOR else TopicEdit
    undo = model._meta.model_name
    may_stand = Q(**{f"{undo}__isnull": True}) | Q(**{f"{undo}__{undo}__isnull": False})
    changes = model._default_manager.filter(may_stand, owner=owner, actor=by).order_by("-at", "-pk")
    made = list(changes.values_list("pk", "at")[: MOST_EDITS + 1])
    kept = made[:MOST_EDITS]
    stands = in_effect(model, owner.pk, [pk for pk, _at in kept]) if kept else {}
    times = [at for pk, at in kept if stands[pk]]
    cut = _day(made[-1][1]) if len(made) > MOST_EDITS else None
    grouped = ((day, list(group)) for day, group in groupby(times, _day))
    return [Night(by, len(group), group[-1], group[0], day != cut) for day, group in islice(grouped, MOST_NIGHTS)]


def night_of(owner: ChatUser, day: date | None = None, by: str = MERGER) -> Night:
    """The night that began on ``day``, or else the latest with changes of ``by`` in effect. Raises CurationError."""
    found = next((night for night in nights(owner, by) if day in (None, night.day)), None)
    if found is None and by == EXTRACTOR:
        raise CurationError(_("The program extracted nothing that night, or it is undone already."))
    if found is None:
        raise CurationError(_("The program merged nothing that night, or it is undone already."))
    return found


def undo_night(owner: ChatUser, night: Night, *, actor: str, reason: str = "") -> list[Record]:
    """Undoes all changes of the night: all of them or none. What is undone is not extracted again, and what waits from
    the same answers is rejected. Raises Depends with later changes that depend on them, CurationError."""
    return undo_between(owner, night.by, night.first, night.end, actor=actor, reason=reason)


def _day(at: datetime) -> date:
    return (timezone.localtime(at) - _NOON).date()
