"""Automatic merges and extraction by night, and the undo of all merges, or of all extraction, of a night.

Archiving, which divides a chat into topics, is not undone: its messages would be in no topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby, islice

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.curation import MERGER, CurationError
from memoryapp.curation.chains import in_effect
from memoryapp.curation.undoing import MOST_EDITS
from memoryapp.engine.agents import archivist
from memoryapp.history.entries import Record
from memoryapp.history.undoing import undo_between
from memoryapp.models import ChatUser, KnowledgeEdit, TopicEdit

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
    clock.

    Two queries. What is earlier than the last 500 changes is left out until those are undone.
    """
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
    """Undoes all changes of the night: all of them or none. What is undone is not extracted again, and what waits
    from the same answers is rejected.

    Raises Depends with later changes that depend on them, CurationError.
    """
    return undo_between(owner, night.by, night.first, night.end, actor=actor, reason=reason)


def _day(at: datetime) -> date:
    return (timezone.localtime(at) - _NOON).date()
