"""Counts of each chat user's memory, for lists of chat users and for the page of one.

The number of queries does not grow with the number of chat users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Model, QuerySet

from memoryapp.browsing.months import last_year
from memoryapp.models import Artifact, ChatUser, Fact, Message, Person, Run, Topic


@dataclass(frozen=True, slots=True)
class Holdings:
    """The content of a chat user's memory in numbers. ``waiting`` messages are in no topic yet, withdrawn ones are not
    counted.

    ``months`` counts the messages of the last twelve months, the current one last; it is empty unless requested.
    """

    messages: int = 0
    waiting: int = 0
    topics: int = 0
    people: int = 0
    artifacts: int = 0
    facts: int = 0
    runs: int = 0
    last_message_at: datetime | None = None
    months: tuple[int, ...] = ()


def holdings(owners: Iterable[ChatUser], *, by_month: bool = False) -> dict[int, Holdings]:
    """What each of these chat users has, by id; seven queries for any number of them, ``by_month`` one more."""
    ids = [owner.pk for owner in owners]
    messages = Message.objects.filter(owner__in=ids)
    # Counted separately from waiting messages: each count then uses an index, and the texts are not read.
    counts = {
        row["owner"]: row for row in messages.present().values("owner").annotate(n=Count("id"), last=Max("sent_at"))
    }
    waiting = _count_by_owner(messages.active())
    topics = _count_by_owner(Topic.objects.live().filter(owner__in=ids))
    people, artifacts, facts = (
        _count_by_owner(noun.objects.filter(owner__in=ids)) for noun in (Person, Artifact, Fact)
    )
    runs = _count_by_owner(Run.objects.by_hand().filter(owner__in=ids))
    months = last_year(ids) if by_month else {}
    return {
        pk: Holdings(
            messages=counts[pk]["n"] if pk in counts else 0,
            waiting=waiting[pk],
            topics=topics[pk],
            people=people[pk],
            artifacts=artifacts[pk],
            facts=facts[pk],
            runs=runs[pk],
            last_message_at=counts[pk]["last"] if pk in counts else None,
            months=months.get(pk, ()),
        )
        for pk in ids
    }


def _count_by_owner(rows: QuerySet[Model]) -> Counter[int]:
    return Counter(dict(rows.order_by().values_list("owner").annotate(n=Count("pk"))))
