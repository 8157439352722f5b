"""Where a person is spoken of: messages with one of their names, and the topics those are in.

A name counts at the beginning of a word, so that its cases count in languages that have them; a short one only
as a whole word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from memoryapp.models import Fact, Message, Person, Topic

MOST_NAMES = 20
SHORT_CHARS = 3


@dataclass(frozen=True, slots=True)
class Mentions:
    """The latest of ``count`` messages, the live topics with most of them, and facts that name the person."""

    count: int
    messages: Sequence[Message]
    topics: Sequence[tuple[Topic, int]]
    facts: Sequence[Fact]


def mentions(person: Person, most: int = 8) -> Mentions:
    pattern = _pattern([person.display_name, *person.aliases])
    if not pattern:
        return Mentions(0, (), (), ())
    said = Message.objects.of(person.owner_id).filter(text__iregex=pattern, is_withdrawn=False)
    counted = said.filter(topic__isnull=False).order_by().values_list("topic").annotate(n=Count("pk"))
    often = dict(counted.order_by("-n", "topic")[:most])
    topics = Topic.objects.of(person.owner_id).in_bulk(list(often))
    facts: QuerySet[Fact] = Fact.objects.filter(owner=person.owner_id, content__iregex=pattern)
    return Mentions(
        said.count(),
        list(said.order_by("-sent_at", "-id")[:most]),
        [(topics[number], n) for number, n in often.items()],
        list(facts.order_by("-importance", "id")[:most]),
    )


def _pattern(names: Sequence[str]) -> str:
    """PostgreSQL's ``\\m`` is where a word begins, ``\\M`` where it ends."""
    given = [name.strip() for name in names if name.strip()][:MOST_NAMES]
    return "|".join(rf"\m{re.escape(name)}" + (r"\M" if len(name) <= SHORT_CHARS else "") for name in given)
