"""The map of topics: points on a plane, where topics near in meaning are near each other. It is computed for each
request, which costs less than a cache would. Of a very large memory only the latest topics are placed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import NamedTuple

import numpy as np
from django.db.models import Exists, OuterRef
from numpy.typing import NDArray

from memoryapp import curation
from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.regions import hull, names, project, regions, within
from memoryapp.models import ChatUser, Run, RunEvent, Topic, TopicVector
from memoryapp.platform.database import array
from memoryapp.platform.statements import fetched

MOST_TOPICS = 5_000
# This many texts of a region, evenly selected, describe it as well as all of them.
NAMED_BY = 100

_SQL = table_beside(__file__)
TOPICS: str = _SQL["topics"]
VECTORS: str = _SQL["vectors"]


class MapTopic(NamedTuple):
    """What the map shows of a topic; ``began`` and ``ended`` are seconds since 1970. That many complete rows would take
    longer to create and delete than everything else."""

    pk: int
    summary: str
    began: int
    ended: int
    message_count: int
    size_chars: int

    @property
    def ended_at(self) -> datetime:
        return datetime.fromtimestamp(self.ended, UTC)


@dataclass(frozen=True, slots=True)
class MapPoint:
    topic: MapTopic
    x: float
    y: float
    region: int


@dataclass(frozen=True, slots=True)
class MapRegion:
    """Topics near each other: the words that distinguish them, their number, and the corners of their outline."""

    words: tuple[str, ...]
    count: int
    corners: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last finished run by hand, and the numbers of the topics that it read and selected."""

    run: Run
    read: frozenset[int]
    chosen: frozenset[int]


@dataclass(frozen=True, slots=True)
class TopicMap:
    """``points``, the latest topic first, in ``regions`` if there are many; ``waiting`` topics have no vector yet.
    ``left_out`` counts topics beyond the limit. ``shown`` is the share of the variance that two dimensions keep."""

    points: tuple[MapPoint, ...]
    waiting: int
    left_out: int
    shown: float
    regions: tuple[MapRegion, ...] = ()


def topic_map(owner: ChatUser) -> TopicMap:
    """The live topics by their vectors in the profile that serves, else the newest that has any; five queries."""
    topics, ids, placed, shown = _placed(owner)
    where = {pk: (x, y, region) for pk, (x, y), region in zip(ids, placed.tolist(), regions(placed), strict=True)}
    points = tuple(MapPoint(topic, *where[topic.pk]) for topic in topics if topic.pk in where)
    live = Topic.objects.of(owner).live()
    with_vector = live.filter(Exists(TopicVector.objects.filter(topic=OuterRef("pk")))).count()
    return TopicMap(points, live.count() - with_vector, max(0, with_vector - len(points)), shown, _regions(points))


def topics_within(owner: ChatUser, corners: Sequence[tuple[float, float]]) -> list[int]:
    """The numbers of the topics that lie on the map in the polygon with these corners; three queries."""
    _topics, ids, placed, _shown = _placed(owner)
    return [number for number, is_inside in zip(ids, within(placed, corners).tolist(), strict=True) if is_inside]


def _placed(owner: ChatUser) -> tuple[list[MapTopic], list[int], NDArray[np.float32], float]:
    """The topics, latest first; the numbers of those with a place and the places, shape (n, 2); the share shown."""
    served = TopicVector.objects.filter(owner=owner).order_by("-profile__is_serving", "-profile")
    profile = served.values_list("profile", flat=True).first()
    # The latest live topics that have a vector in the profile of this number, the latest first.
    topics = [MapTopic(*row) for row in fetched(TOPICS, {"owner": owner.pk, "profile": profile, "most": MOST_TOPICS})]
    ids, vectors = _vectors(owner, profile, topics)
    return topics, ids, *project(vectors)


def _regions(points: Sequence[MapPoint]) -> tuple[MapRegion, ...]:
    labels = [point.region for point in points]
    if len(set(labels)) < 2:
        return ()
    corners: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for point in points:
        corners[point.region].append((point.x, point.y))
    words = names(*_sample(points))
    return tuple(MapRegion(own, len(corners[at]), tuple(hull(corners[at]))) for at, own in enumerate(words))


def _sample(points: Sequence[MapPoint]) -> tuple[list[str], list[int]]:
    """Summaries that name the regions, and the region of each; every region has at least one."""
    members: dict[int, list[str]] = defaultdict(list)
    for point in points:
        members[point.region].append(point.topic.summary)
    chosen = [(text, at) for at, texts in members.items() for text in texts[:: ceil(len(texts) / NAMED_BY)]]
    return [text for text, _at in chosen], [at for _text, at in chosen]


def last_run(owner: ChatUser) -> LastRun | None:
    """The last finished run's topics, under the numbers they have today; three queries."""
    run = (
        Run.objects.of(owner)
        .by_hand()
        .made_here()
        .filter(state=Run.State.FINISHED)
        .order_by("-created_at", "-pk")
        .first()
    )
    end = (
        RunEvent.objects.filter(run=run, kind="run_finished").values_list("payload", flat=True).first() if run else None
    )
    if run is None or end is None:
        return None
    chosen = {number for item in end.get("selected", ()) if (number := parse_topic_id(item["id"]))}
    read = {number for name in end.get("requested", ()) if (number := parse_topic_id(name))}
    now = curation.successors(owner.pk, chosen | read)
    return LastRun(run, *(frozenset(live for old in ids for live in now.get(old, ())) for ids in (read, chosen)))


def _vectors(owner: ChatUser, profile: int | None, topics: Sequence[MapTopic]) -> tuple[list[int], NDArray[np.float32]]:
    values = {"owner": owner.pk, "profile": profile, "topics": array(topic.pk for topic in topics)}
    [(numbers, halves)] = fetched(VECTORS, values)
    ids = np.frombuffer(numbers or b"", ">i8").tolist()
    vectors = np.frombuffer(halves or b"", ">f2").astype(np.float32)
    return ids, vectors.reshape(len(ids), -1) if ids else np.zeros((0, 0), np.float32)
