"""What somebody looking through a memory asks of it: how much there is, when it grew, what lies near.

Every function costs a fixed number of queries however many rows are shown, and reads no vector and no
event that it does not need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import isfinite

from django.db import connection
from django.db.models import Count, Exists, Max, Model, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import TruncMonth
from django.utils import timezone
from pgvector.django import CosineDistance

from memoryapp.engine.embeddings import Profile
from memoryapp.engine.memory import topic_id
from memoryapp.models import (
    Artifact,
    ChatUser,
    Fact,
    Message,
    Passage,
    PassageVector,
    Person,
    Run,
    RunEvent,
    Topic,
    TopicVector,
)

RUNS_LOOKED_AT = 300

# A passage with several messages of a part counts once.
NEAREST_TO_PARTS = """
WITH profile AS (
    SELECT id FROM memoryapp_embeddingprofile WHERE provider = %s AND model = %s AND dimensions = %s
), held AS (
    SELECT DISTINCT said.place, pm.passage_id
    FROM unnest(%s::bigint[], %s::int[]) AS said (message_id, place)
    JOIN memoryapp_passagemessage pm ON pm.message_id = said.message_id
), part AS (
    SELECT held.place, avg(pv.vector) AS vector
    FROM held
    JOIN memoryapp_passagevector pv ON pv.passage_id = held.passage_id AND pv.owner_id = %s
    JOIN profile ON pv.profile_id = profile.id
    GROUP BY held.place
)
SELECT part.place, near.topic_id, 1 - near.distance
FROM part
CROSS JOIN LATERAL (
    SELECT tv.topic_id, tv.vector <=> part.vector AS distance
    FROM memoryapp_topicvector tv
    JOIN profile ON tv.profile_id = profile.id
    JOIN memoryapp_topic t ON t.id = tv.topic_id AND t.is_live
    WHERE tv.owner_id = %s AND tv.topic_id <> %s
    ORDER BY distance, tv.topic_id
    LIMIT %s
) near
ORDER BY part.place, near.distance, near.topic_id
"""


@dataclass(frozen=True, slots=True)
class Holdings:
    """How much one chat user's memory holds; ``waiting`` messages are in no topic yet, withdrawn ones do not count.

    ``months`` counts the messages of the last twelve months, this one last.
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


def holdings(owners: Iterable[ChatUser]) -> dict[int, Holdings]:
    """What each of these chat users has, by id; seven queries for any number of them."""
    ids = [owner.pk for owner in owners]
    messages = Message.objects.filter(owner__in=ids).present().values("owner")
    said = {
        row["owner"]: row
        for row in messages.annotate(n=Count("id"), waiting=Count("id", Q(topic__isnull=True)), last=Max("sent_at"))
    }
    topics = _counted(Topic.objects.live().filter(owner__in=ids))
    people, artifacts, facts = (_counted(noun.objects.filter(owner__in=ids)) for noun in (Person, Artifact, Fact))
    runs = _counted(Run.objects.by_hand().filter(owner__in=ids))
    months = _last_year(ids)
    return {
        pk: Holdings(
            messages=said[pk]["n"] if pk in said else 0,
            waiting=said[pk]["waiting"] if pk in said else 0,
            topics=topics[pk],
            people=people[pk],
            artifacts=artifacts[pk],
            facts=facts[pk],
            runs=runs[pk],
            last_message_at=said[pk]["last"] if pk in said else None,
            months=months[pk],
        )
        for pk in ids
    }


def _counted(rows: QuerySet[Model]) -> Counter[int]:
    return Counter(dict(rows.order_by().values_list("owner").annotate(n=Count("pk"))))


def _last_year(owners: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Messages of each of the last twelve months, the oldest first, for each owner."""
    today = timezone.now().date()
    shown = _months(date(today.year - (today.month < 12), today.month % 12 + 1, 1), today)
    since = datetime(*shown[0].timetuple()[:3], tzinfo=UTC)
    rows = Message.objects.filter(owner__in=owners, sent_at__gte=since).present()
    counted = rows.annotate(month=TruncMonth("sent_at")).values_list("owner", "month").annotate(n=Count("id"))
    found = {(owner, month.date()): n for owner, month, n in counted.order_by()}
    return {owner: tuple(found.get((owner, month), 0) for month in shown) for owner in owners}


def messages_by_month(owner: ChatUser) -> list[tuple[date, int]]:
    """Months from the first message to the last with their numbers of messages, the empty ones too."""
    rows = Message.objects.of(owner).present().annotate(month=TruncMonth("sent_at")).values_list("month")
    found = {month.date(): n for month, n in rows.annotate(n=Count("id")).order_by("month")}
    if not found:
        return []
    return [(month, found.get(month, 0)) for month in _months(min(found), max(found))]


def _months(first: date, last: date) -> list[date]:
    span = (last.year - first.year) * 12 + last.month - first.month
    return [date(first.year + (first.month - 1 + n) // 12, (first.month - 1 + n) % 12 + 1, 1) for n in range(span + 1)]


def topics_by_words(topics: QuerySet[Topic], words: str, pk: int | None) -> QuerySet[Topic]:
    """Topics whose summary holds each of the words, or that one by its id."""
    said = Q()
    for word in words.split():
        said &= Q(summary__icontains=word)
    return topics.filter(said | Q(pk=pk) if pk is not None else said)


def without_vectors(owners: QuerySet[ChatUser], profile: Profile) -> int:
    """How many passages search cannot compare by meaning yet: vectors of another profile do not help."""
    vectors = PassageVector.objects.filter(
        passage=OuterRef("pk"),
        profile__provider=profile.provider,
        profile__model=profile.model,
        profile__dimensions=profile.dimensions,
    )
    return Passage.objects.filter(~Exists(vectors), owner__in=owners).count()


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A live topic of the same chat user; ``similarity`` is cosine in [-1, 1]."""

    topic: Topic
    similarity: float


def neighbours(topic: Topic, most: int = 6) -> list[Neighbour]:
    """The nearest live topics by vector, nearest first; none while the topic has no vector."""
    own = TopicVector.objects.filter(owner=topic.owner_id, topic=topic).order_by("-profile")
    near = TopicVector.objects.filter(
        owner=topic.owner_id, profile=Subquery(own.values("profile")[:1]), topic__is_live=True
    ).exclude(topic=topic)
    near = near.annotate(distance=CosineDistance("vector", Subquery(own.values("vector")[:1])))
    rows = near.order_by("distance", "topic").defer("vector").select_related("topic")[:most]
    return [Neighbour(row.topic, 1 - row.distance) for row in rows if row.distance is not None]


@dataclass(frozen=True, slots=True)
class Seen:
    """What recent runs did with a topic; ``runs`` are the latest of those that read or chose it.

    ``former`` are the numbers under which some of its messages were seen before, latest first.
    """

    read: int
    chosen: int
    looked_at: int
    runs: Sequence[tuple[Run, bool]]
    former: Sequence[int] = ()


def seen_by_runs(topic: Topic, former: Sequence[int] = (), most: int = 6) -> Seen:
    """The topic, or one of the ``former`` ones that held its messages, in the last few hundred runs by hand.

    Only the small last event of each run is read.
    """
    names = [topic_id(number) for number in (topic.pk, *former)]
    recent = {run.pk: run for run in Run.objects.of(topic.owner_id).by_hand().order_by("-created_at")[:RUNS_LOOKED_AT]}
    chose = Q(*(Q(payload__selected__contains=[{"id": name}]) for name in names), _connector=Q.OR)
    read = Q(payload__requested__has_any_keys=names)
    ends = RunEvent.objects.filter(owner=topic.owner_id, run__in=list(recent), kind="run_finished")
    found = dict(ends.filter(chose | read).values_list("run").annotate(n=Count("pk", chose)))
    shown = [(run, bool(found[pk])) for pk, run in recent.items() if pk in found]
    return Seen(len(found), sum(map(bool, found.values())), len(recent), shown[:most], former)


def successors(topic: Topic) -> QuerySet[Topic]:
    """The live topics that hold a retired topic's messages now."""
    return Topic.objects.of(topic.owner_id).live().filter(message__topicmessage__topic=topic).distinct().order_by("id")


def _of_profile(owner: ChatUser | int, profile: Profile) -> QuerySet[TopicVector]:
    named = {"provider": profile.provider, "model": profile.model, "dimensions": profile.dimensions}
    return TopicVector.objects.filter(owner=owner, **{f"profile__{name}": value for name, value in named.items()})


def nearest(owner: ChatUser, vector: Sequence[float], profile: Profile, most: int = 12) -> list[Neighbour]:
    """The owner's live topics nearest to a vector of the profile, nearest first."""
    rows = _of_profile(owner, profile).filter(topic__is_live=True)
    rows = rows.annotate(distance=CosineDistance("vector", list(vector))).order_by("distance", "topic")
    rows = rows.defer("vector").select_related("topic")[:most]
    return [Neighbour(row.topic, 1 - row.distance) for row in rows if row.distance is not None]


def nearest_to_parts(
    topic: Topic, parts: Sequence[Sequence[int]], profile: Profile, most: int = 3
) -> list[list[Neighbour]]:
    """For each part, the ids of its messages, the live topics but ``topic`` that are nearest to it, nearest first.

    A part is where the mean of its passages is; without vectors it has no neighbours. Two queries for all parts.
    """
    messages = [number for part in parts for number in part]
    places = [place for place, part in enumerate(parts) for _number in part]
    named = (profile.provider, profile.model, profile.dimensions)
    with connection.cursor() as cursor:
        cursor.execute(NEAREST_TO_PARTS, (*named, messages, places, topic.owner_id, topic.owner_id, topic.pk, most))
        rows = [row for row in cursor.fetchall() if isfinite(row[2])]
    topics = Topic.objects.of(topic.owner_id).in_bulk({pk for _place, pk, _similarity in rows})
    near: list[list[Neighbour]] = [[] for _part in parts]
    for place, pk, similarity in rows:
        near[place].append(Neighbour(topics[pk], similarity))
    return near


def has_vector(topic: Topic, profile: Profile) -> bool:
    """Whether the topic can be compared by meaning yet; its messages are searched in any case."""
    return _of_profile(topic.owner_id, profile).filter(topic=topic).exists()
