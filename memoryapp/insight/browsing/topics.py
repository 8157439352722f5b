"""How often recent runs showed, read, chose and used each of many topics, at a fixed number of queries."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from memoryapp import curation
from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.text.names import spellings
from memoryapp.models import Fact, Message, Person, Run, RunEvent, Topic
from memoryapp.models.run import SHOWN_IDS
from memoryapp.platform.statements import fetched

# Recent runs that concern one topic: how many read it, selected it and used it, and which they are.

RUNS_LOOKED_AT = 300


@dataclass(frozen=True, slots=True)
class TopicRuns:
    """How many recent runs showed a topic to the model, read it and selected it, and how many answers used it. ``runs``
    are the latest that read or selected it. ``former`` are earlier topics with some of its messages, latest first."""

    candidate: int
    read: int
    chosen: int
    used: int
    looked_at: int
    runs: Sequence[tuple[Run, bool]]
    former: Sequence[int] = ()


def topic_runs(topic: Topic, former: Sequence[int] = (), most: int = 6, until: datetime | None = None) -> TopicRuns:
    """Counts for the topic, including the ``former`` ones, in the last few hundred runs by hand (before ``until``). Two
    events of each run are searched, its candidates and its last one, by containment in the database, and what was sent
    of the assistant's answers. Four statements."""
    names = [topic_id(number) for number in (topic.pk, *former)]
    asked = Run.objects.of(topic.owner_id).by_hand().made_here().order_by("-created_at")
    asked = asked.filter(created_at__lte=until) if until else asked
    recent = {run.pk: run for run in asked[:RUNS_LOOKED_AT]}
    chose = Q(*(Q(payload__selected__contains=[{"id": name}]) for name in names), _connector=Q.OR)
    read = Q(payload__requested__has_any_keys=names) | Q(payload__dropped__has_any_keys=names)
    ends = RunEvent.objects.filter(owner=topic.owner_id, run__in=list(recent), kind="run_finished")
    found = dict(ends.filter(chose | read).values_list("run").annotate(n=Count("pk", chose)))
    shown = [(run, bool(found[pk])) for pk, run in recent.items() if pk in found]
    searches = RunEvent.objects.filter(owner=topic.owner_id, run__in=list(recent), kind="candidates_found")
    offered = Q(*(Q(payload__candidates__contains=[{"id": name}]) for name in names), _connector=Q.OR)
    candidate = searches.filter(offered).count()
    named = Q(*(Q(delivered__uses__contains=[{"id": name}]) for name in names), _connector=Q.OR)
    used = Run.objects.of(topic.owner_id).filter(named, pk__in=list(recent)).count()
    return TopicRuns(candidate, len(found), sum(map(bool, found.values())), used, len(recent), shown[:most], former)


_SQL = table_beside(__file__)
NAMED: str = _SQL["named"].format(shown=SHOWN_IDS.format(payload="payload"))


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """In how many of the recent runs a topic was shown to the model, read or chosen, chosen, and used in an answer."""

    candidate: int = 0
    read: int = 0
    chosen: int = 0
    used: int = 0

    def __bool__(self) -> bool:
        return bool(self.candidate or self.read)


def topic_counts(owner_id: int, topics: Collection[int], until: datetime | None = None) -> dict[int, TopicCounts]:
    """The counts of each of the owner's topics, with the earlier topics from which it came, in the last few hundred
    runs by hand (before ``until``), as ``topic_runs`` has them. Three queries for any number of topics."""
    asked = Run.objects.of(owner_id).by_hand().made_here().order_by("-created_at")
    asked = asked.filter(created_at__lte=until) if until else asked
    recent = dict(asked.values_list("pk", "delivered")[:RUNS_LOOKED_AT])
    if not recent or not topics:
        return dict.fromkeys(topics, TopicCounts())
    candidate, read, chosen, used = (defaultdict[str, set[object]](set) for _kind in range(4))
    for kind, shown, opened, selected, run in fetched(NAMED, {"owner": owner_id, "runs": list(recent)}):
        if kind == "candidates_found":
            _note(candidate, _ids(shown), run)
        else:
            _note(read, [*_ids(opened), *_ids(selected)], run)
            _note(chosen, _ids(selected), run)
    for run, delivered in recent.items():
        _note(used, [use["id"] for use in (delivered or {}).get("uses", ())], run)
    former = curation.former_of_each(owner_id, topics)
    return {
        number: TopicCounts(
            *(
                len(set[object]().union(*(each.get(topic_id(same), ()) for same in (number, *former.get(number, ())))))
                for each in (candidate, read, chosen, used)
            )
        )
        for number in topics
    }


def recalled_topics(owner_id: int) -> set[int]:
    """The topics of which ``topic_counts`` says something today: recent runs showed, read or chose them, or topics from
    which they came. Two queries and one for the recent runs."""
    asked = Run.objects.of(owner_id).by_hand().made_here().order_by("-created_at")
    recent = list(asked.values_list("pk", flat=True)[:RUNS_LOOKED_AT])
    rows = fetched(NAMED, {"owner": owner_id, "runs": recent})
    named = {id for _kind, *lists, _run in rows for ids in lists for id in _ids(ids)}
    topics = {number for id in named if (number := parse_topic_id(id))}
    return topics | curation.come_from(owner_id, topics)


def _ids(value: object) -> list[str]:
    found = json.loads(value) if isinstance(value, str) else value
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _note(runs: Mapping[str, set[object]], ids: Iterable[str], run: object) -> None:
    for id in ids:
        runs[id].add(run)


# Finds topics by the words of their summaries, for lists and pickers.


def topics_by_words(topics: QuerySet[Topic], words: str, pk: int | None) -> QuerySet[Topic]:
    """Topics whose summary contains all of the words, or the topic with that id."""
    wanted = Q()
    for word in words.split():
        wanted &= Q(summary__icontains=word)
    return topics.filter(wanted | Q(pk=pk) if pk is not None else wanted)


# Where a person is mentioned: messages with one of their names, and the topics those are in.
#
# A name counts as a whole word in any of its cases, by ``engine.names``.

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
