"""Where a person is mentioned: messages with one of their names, and the topics those are in.

A name counts as a whole word in any of its cases, by ``engine.names``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from memoryapp.engine.text.names import spellings
from memoryapp.models import Fact, Message, Person, Topic

MOST_NAMES = 20
_BETWEEN = r"\W+"


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
    messages = Message.objects.of(person.owner_id).filter(text__regex=pattern, is_withdrawn=False)
    counted = messages.filter(topic__isnull=False).order_by().values_list("topic").annotate(n=Count("pk"))
    often = dict(counted.order_by("-n", "topic")[:most])
    topics = Topic.objects.of(person.owner_id).in_bulk(list(often))
    facts: QuerySet[Fact] = Fact.objects.current().filter(owner=person.owner_id, content__regex=pattern)
    return Mentions(
        messages.count(),
        list(messages.order_by("-sent_at", "-id")[:most]),
        [(topics[number], n) for number, n in often.items()],
        list(facts.order_by("-importance", "id")[:most]),
    )


def _pattern(names: Sequence[str]) -> str:
    """PostgreSQL's ``\\m`` is where a word begins, ``\\M`` where it ends."""
    variants = [spellings(name) for name in names if name.strip()][:MOST_NAMES]
    return "|".join(rf"\m{_BETWEEN.join(map(_any_of, parts))}\M" for parts in variants if parts)


def _any_of(spelled: Collection[str]) -> str:
    """Any of these words, with ``ё`` or without."""
    written = "|".join(map(re.escape, sorted(spelled)))
    return f"({written.replace('е', '[её]').replace('Е', '[ЕЁ]')})"
