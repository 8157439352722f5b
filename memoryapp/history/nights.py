"""Automatic merges by night, and the undo of all merges of a night."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby, islice

from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import MERGER, CurationError
from memoryapp.curation.undoing import MOST_EDITS
from memoryapp.history.entries import Record
from memoryapp.history.undoing import undo_between
from memoryapp.models import ChatUser, TopicEdit

MOST_NIGHTS = 7
_NOON = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Night:
    """``count`` merges in effect, from ``first`` to ``last``, both included."""

    count: int
    first: datetime
    last: datetime

    @property
    def day(self) -> date:
        """The day on whose noon the night began."""
        return _day(self.first)

    @property
    def end(self) -> datetime:
        """The moment after its last merge."""
        return self.last + timedelta(microseconds=1)


def nights(owner: ChatUser) -> list[Night]:
    """The latest nights with merges in effect, newest first; each lasts from noon to noon on the reader's clock.

    Two queries. Nights before the last 500 merges are left out.
    """
    merges = TopicEdit.objects.filter(owner=owner, actor=MERGER).order_by("-at", "-pk")
    made = list(merges.values_list("pk", "at")[:MOST_EDITS])
    stands = curation.in_effect(owner.pk, [pk for pk, _at in made]) if made else {}
    times = [at for pk, at in made if stands[pk]]
    grouped = (list(group) for _began, group in groupby(times, _day))
    return [Night(len(group), group[-1], group[0]) for group in islice(grouped, MOST_NIGHTS)]


def night_of(owner: ChatUser, day: date | None = None) -> Night:
    """The night that began on ``day``, or else the latest with merges in effect. Raises CurationError."""
    found = next((night for night in nights(owner) if day in (None, night.day)), None)
    if found is None:
        raise CurationError(_("The program merged nothing that night, or it is undone already."))
    return found


def undo_night(owner: ChatUser, night: Night, *, actor: str, reason: str = "") -> list[Record]:
    """Undoes all automatic merges of the night: all of them or none.

    Raises Depends with later changes that depend on them, CurationError.
    """
    return undo_between(owner, MERGER, night.first, night.end, actor=actor, reason=reason)


def _day(at: datetime) -> date:
    return (timezone.localtime(at) - _NOON).date()
