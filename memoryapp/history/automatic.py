"""Automatic changes between the entries of a page, counted, so that a list can fold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Count, F, Func, IntegerField, Max, Min, Q, Value

from memoryapp.curation import MERGER
from memoryapp.history.listing import AUTOMATIC, HistoryPage, Narrowing, conditions, neighbour_at
from memoryapp.models import ChatUser, TopicEdit


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
    for a page that is not the first.
    """
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
