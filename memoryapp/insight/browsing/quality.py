"""The quality of memories in numbers: what is missing, doubtful or never used, each as its list counts it. Nine queries
for any number of chat users and rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Model, Q, QuerySet
from django.utils import timezone

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.languages import latin_language
from memoryapp.engine.text.lexical import WIDE
from memoryapp.insight.browsing.topics import RUNS_LOOKED_AT
from memoryapp.models import Artifact, ChatUser, Fact, Message, Person, Run, Topic
from memoryapp.models.run import SHOWN_IDS
from memoryapp.platform.statements import fetched

# Summaries in another language than their topics' messages: those of a model that answered in a language of its own.
#
# Letters are compared first, because they are stored with each passage. Where both are Latin, the most frequent words
# of the summary and of the first messages tell their languages; a summary without such words is in none.

# A talk in Latin letters has at most this share of passages in others, and the other way round; what lies between is
# mixed, and no summary of it is foreign.
MIXED_FROM = 0.2
# Of each topic so many messages show its language, by so many characters each.
_MESSAGES, _CHARS = 8, 200

_SQL = table_beside(__file__)
SUMMARIES: str = _SQL["summaries"].format(wide=WIDE, mixed_from=MIXED_FROM, mixed_below=1 - MIXED_FROM)
BEGINNINGS: str = _SQL["beginnings"].format(chars=_CHARS, messages=_MESSAGES)


def foreign_summaries(owners: Sequence[int]) -> dict[int, list[int]]:
    """The numbers of the live topics with one, by the number of their chat user; two queries. Every message's passages
    are looked at, and the beginnings of talks whose summary is in a language that is known."""
    found: dict[int, list[int]] = {owner: [] for owner in owners}
    latin: dict[int, tuple[int, str]] = {}
    for owner, topic, summary, is_foreign, is_latin in fetched(SUMMARIES, [list(owners)]):
        if is_foreign:
            found[owner].append(topic)
        elif is_latin and (language := latin_language(summary)):
            latin[topic] = (owner, language)
    for topic, talk in fetched(BEGINNINGS, [list(latin)]):
        owner, language = latin[topic]
        if latin_language(talk) not in ("", language):
            found[owner].append(topic)
    return found


def topics_with_foreign_summary(owner: ChatUser) -> list[int]:
    """The numbers of this owner's live topics that have one."""
    return foreign_summaries([owner.pk])[owner.pk]


# Who is mentioned less than that is seldom worth a row of their own.
FEW_MENTIONS = 2
WEEK = timedelta(days=7)
# An active session that is quiet for longer has been forgotten by the worker, or waits for more messages.
LONG_QUIET = timedelta(days=1)

TOPICS: str = _SQL["topics"]
RECALLED: str = _SQL["recalled"].format(shown=SHOWN_IDS.format(payload="e.payload"), runs_looked_at=RUNS_LOOKED_AT)
QUIET: str = _SQL["quiet"]


@dataclass(frozen=True, slots=True)
class Quality:
    """One memory. ``waiting`` messages are in no topic, ``quiet`` counts the chats of them that are silent for a
    day; ``segmented`` topics were cut by the segmenter, ``unused`` ones shown by none of the last runs. The summaries
    of ``equal`` ones are another's too, those of ``foreign`` ones are in other letters than their messages.
    ``replaced`` facts ceased to be true in the last week, ``seldom`` people are mentioned once or never."""

    topics: int = 0
    equal: int = 0
    factless: int = 0
    segmented: int = 0
    foreign: int = 0
    unused: int = 0
    messages: int = 0
    waiting: int = 0
    quiet: int = 0
    people: int = 0
    seldom: int = 0
    facts: int = 0
    replaced: int = 0

    def __add__(self, other: Quality) -> Quality:
        return Quality(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


def qualities(owners: Sequence[ChatUser], *, now: datetime) -> dict[int, Quality]:
    ids = [owner.pk for owner in owners]
    sums: dict[int, dict[str, int]] = {pk: {} for pk in ids}
    _add(sums, _rows(TOPICS, {"owners": ids}), "topics", "equal", "factless", "segmented")
    _add(sums, [(pk, len(topics)) for pk, topics in foreign_summaries(ids).items()], "foreign")
    recalled = dict(_rows(RECALLED, {"owners": ids}))
    _add(sums, [(pk, sums[pk].get("topics", 0) - recalled.get(pk, 0)) for pk in ids], "unused")
    messages = Message.objects.filter(owner__in=ids)
    # Each of the two counts reads an index of its own, and no text.
    _add(sums, _counted(messages.present(), n=Count("pk")), "messages")
    _add(sums, _counted(messages.active(), n=Count("pk")), "waiting")
    _add(sums, _rows(QUIET, {"owners": ids, "before": now - LONG_QUIET}), "quiet")
    people = Person.objects.filter(owner__in=ids)
    _add(sums, _counted(people, n=Count("pk"), few=Count("pk", Q(mention_count__lt=FEW_MENTIONS))), "people", "seldom")
    facts = Fact.objects.filter(owner__in=ids)
    lately = Count("pk", Q(superseded_at__gte=now - WEEK))
    _add(sums, _counted(facts, n=Count("pk"), replaced=lately), "facts", "replaced")
    return {pk: Quality(**found) for pk, found in sums.items()}


def _add(sums: Mapping[int, dict[str, int]], rows: Sequence[Sequence[Any]], *names: str) -> None:
    for pk, *numbers in rows:
        sums[pk].update(zip(names, numbers, strict=True))


def _counted(rows: QuerySet[Any], **counts: Count) -> list[tuple[int, ...]]:
    return list(rows.order_by().values("owner").annotate(**counts).values_list("owner", *counts))


def _rows(sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return list(fetched(sql, values))


# Messages by month, for the charts that show how a memory grew.

MOST_MONTHS = 240
# The messages of an owner's month from ``start`` on: the index ``message_counted`` finds and counts them, and no month
# is computed of every single message.
_COUNT = """
    SELECT count(*) FROM memoryapp_message WHERE owner_id = {owner} AND NOT is_withdrawn
    AND sent_at >= start AND sent_at < (start AT TIME ZONE %(zone)s + interval '1 month') AT TIME ZONE %(zone)s
"""
MONTHS: str = _SQL["months"].format(count=_COUNT.format(owner="%(owner)s"))
LISTED_MONTHS = f"""
SELECT listed.owner, month, ({_COUNT.format(owner="listed.owner")})
FROM unnest(%(owners)s::bigint[]) AS listed (owner), unnest(%(months)s::date[]) AS month,
     LATERAL (SELECT month::timestamp AT TIME ZONE %(zone)s AS start) began
"""


def last_year(owners: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Messages of each of the last twelve months of the reader's clock, the oldest first, for each owner."""
    today = timezone.localdate()
    shown = _months(date(today.year - (today.month < 12), today.month % 12 + 1, 1), today)
    zone = timezone.get_current_timezone_name()
    found = {
        (owner, month): n
        for owner, month, n in fetched(LISTED_MONTHS, {"owners": list(owners), "months": shown, "zone": zone})
    }
    return {owner: tuple(found[owner, month] for month in shown) for owner in owners}


def messages_by_month(owner: ChatUser) -> list[tuple[date, int]]:
    """The latest months with messages, with their numbers, oldest first, and the empty months between them. If a
    message is dated centuries off, only months with messages; never more than ``MOST_MONTHS``."""
    values: dict[str, int | str] = {
        "owner": owner.pk,
        "zone": timezone.get_current_timezone_name(),
        "most": MOST_MONTHS,
    }
    found: dict[date, int] = dict(fetched(MONTHS, values))
    if not found:
        return []
    first, last = min(found), max(found)
    is_long = (last.year - first.year) * 12 + last.month - first.month >= MOST_MONTHS
    return [(month, found.get(month, 0)) for month in (sorted(found) if is_long else _months(first, last))]


def _months(first: date, last: date) -> list[date]:
    span = (last.year - first.year) * 12 + last.month - first.month
    return [date(first.year + (first.month - 1 + n) // 12, (first.month - 1 + n) % 12 + 1, 1) for n in range(span + 1)]


# Counts of each chat user's memory, for lists of chat users and for the page of one.
#
# The number of queries does not grow with the number of chat users.


@dataclass(frozen=True, slots=True)
class Holdings:
    """The content of a chat user's memory in numbers. ``waiting`` messages are in no topic yet, withdrawn ones are not
    counted. ``months`` counts the messages of the last twelve months, the current one last; it is empty unless
    requested."""

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
    counts = {r["owner"]: r for r in messages.present().values("owner").annotate(n=Count("id"), last=Max("sent_at"))}
    waiting = _count_by_owner(messages.active())
    topics = _count_by_owner(Topic.objects.live().filter(owner__in=ids))
    people, files, facts = (_count_by_owner(noun.objects.filter(owner__in=ids)) for noun in (Person, Artifact, Fact))
    runs = _count_by_owner(Run.objects.by_hand().filter(owner__in=ids))
    months = last_year(ids) if by_month else {}
    return {
        pk: Holdings(
            messages=counts[pk]["n"] if pk in counts else 0,
            waiting=waiting[pk],
            topics=topics[pk],
            people=people[pk],
            artifacts=files[pk],
            facts=facts[pk],
            runs=runs[pk],
            last_message_at=counts[pk]["last"] if pk in counts else None,
            months=months.get(pk, ()),
        )
        for pk in ids
    }


def _count_by_owner(rows: QuerySet[Model]) -> Counter[int]:
    return Counter(dict(rows.order_by().values_list("owner").annotate(n=Count("pk"))))
