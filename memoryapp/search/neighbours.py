"""The live topics that are nearest in meaning to a topic, to a vector, or to parts of a topic."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from asgiref.sync import async_to_sync
from django.db import connection
from django.db.models import QuerySet, Subquery
from pgvector.django import CosineDistance

from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Embedder, Profile
from memoryapp.engine.events import QueryEnriched
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import ChatUser, Fact, Topic, TopicVector
from memoryapp.platform.database import pool
from memoryapp.search import memory_index
from memoryapp.search.memory_index import IndexCache
from memoryapp.search.retrieval import SearchResult, Sizes, search
from memoryapp.search.similarity import Question
from memoryapp.search.wording import Worded, word_query

_SQL = table_beside(__file__)
NEAREST_TO_PARTS: str = _SQL["nearest_to_parts"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A live topic of the same chat user; ``similarity`` is cosine in [-1, 1]."""

    topic: Topic
    similarity: float


def neighbours(topic: Topic, most: int = 6) -> list[Neighbour]:
    """The nearest live topics by vector, nearest first; none while the topic has no vector."""
    own = TopicVector.objects.filter(owner=topic.owner_id, topic=topic).order_by("-profile__is_serving", "-profile")
    near = TopicVector.objects.filter(
        owner=topic.owner_id, profile=Subquery(own.values("profile")[:1]), topic__is_live=True
    ).exclude(topic=topic)
    near = near.annotate(distance=CosineDistance("vector", Subquery(own.values("vector")[:1])))
    rows = near.order_by("distance", "topic").defer("vector").select_related("topic")[:most]
    return [Neighbour(row.topic, 1 - row.distance) for row in rows if row.distance is not None]


def vectors_of_profile(owner: ChatUser | int, profile: Profile) -> QuerySet[TopicVector]:
    named = {f"profile__{name}": value for name, value in profile.identity.items()}
    return TopicVector.objects.filter(owner=owner, **named)


def nearest(owner: ChatUser, vector: Sequence[float], profile: Profile, most: int = 12) -> list[Neighbour]:
    """The owner's live topics nearest to a vector of the profile, nearest first."""
    rows = vectors_of_profile(owner, profile).filter(topic__is_live=True)
    rows = rows.annotate(distance=CosineDistance("vector", list(vector))).order_by("distance", "topic")
    rows = rows.defer("vector").select_related("topic")[:most]
    return [Neighbour(row.topic, 1 - row.distance) for row in rows if row.distance is not None]


def nearest_to_parts(
    topic: Topic, parts: Sequence[Sequence[int]], profile: Profile, most: int = 3
) -> list[list[Neighbour]]:
    """For each part, given as ids of its messages, the nearest live topics except ``topic``, nearest first. The vector
    of a part is the mean of its passages; without vectors it has no neighbours. Two queries for all parts."""
    messages = [number for part in parts for number in part]
    places = [place for place, part in enumerate(parts) for _number in part]
    named = profile.identity.values()
    with connection.cursor() as cursor:
        cursor.execute(NEAREST_TO_PARTS, (*named, messages, places, topic.owner_id, topic.owner_id, topic.pk, most))
        rows = [row for row in cursor.fetchall() if isfinite(row[2])]
    topics = Topic.objects.of(topic.owner_id).in_bulk({pk for _place, pk, _similarity in rows})
    near: list[list[Neighbour]] = [[] for _part in parts]
    for place, pk, similarity in rows:
        near[place].append(Neighbour(topics[pk], similarity))
    return near


# A memory searched by meaning for its lists: the recall's own search, without a run and without a chat model.
#
# Out come the numbers of topics, messages, people and facts, the nearest first, with the scores that a recall would
# show. Facts have no vectors of their own: they follow the topics that they come from.

MOST_FOUND = 100
# For the query's vector, and for all of it: a list that comes later is not waited for.
VECTOR_SECONDS, SECONDS = 4.0, 10.0
_SIZES = Sizes(topics=MOST_FOUND, people=MOST_FOUND, artifacts=1, ranked=2 * MOST_FOUND, passages=MOST_FOUND)

Scores = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class NearestRows:
    """Scores in (0, 1) by the rows' numbers, the nearest first, at most ``MOST_FOUND`` of each noun. ``has_vector`` is
    False when the query was compared by its words alone, because no vector of it arrived in time; ``without_vector``
    counts passages that have none yet. ``is_late`` means that nothing was found in time."""

    topics: Scores = field(default_factory=dict)
    messages: Scores = field(default_factory=dict)
    people: Scores = field(default_factory=dict)
    facts: Scores = field(default_factory=dict)
    has_vector: bool = True
    without_vector: int = 0
    is_late: bool = False


def nearest_rows(owner: ChatUser, words: str, embedder: Embedder, profile_id: int) -> NearestRows:
    """What is nearest to the words. May not be called in an event loop; it reads over a connection of its own."""
    try:
        query, found = async_to_sync(_search)(owner.pk, words, embedder, profile_id)
    except TimeoutError:
        return NearestRows(is_late=True)
    topics = _topics(found)
    return NearestRows(
        topics=topics,
        messages=_messages(found),
        people={int(person.id.partition(":")[2]): person.score for person in found.people if person.shown},
        facts=_facts(owner, topics),
        has_vector=query.typed.vector is not None,
        without_vector=found.without_vector,
    )


async def _search(owner_id: int, words: str, embedder: Embedder, profile_id: int) -> tuple[Worded, SearchResult]:
    cache = IndexCache()
    async with asyncio.timeout(SECONDS), pool(is_single=True) as opened:
        async with opened.connection() as connection:
            index = await memory_index.current(connection, owner_id, cache)
        line = QueryEnriched(words, words, note="", seconds=0.0)
        query = await word_query(line, (), embedder, VECTOR_SECONDS, index.origins.authors)
        asked = Question(owner_id, words, query.typed.vector, profile_id, embedder.profile.dimensions)
        async with opened.connection() as connection:
            return query, await search(connection, asked, sizes=_SIZES, cache=cache)


def _topics(found: SearchResult) -> dict[int, float]:
    """The topics, each with those that say the same beside it; active sessions are no topics."""
    copies: dict[str, list[str]] = {}
    for copy, original in found.copies.items():
        copies.setdefault(original, []).append(copy)
    scored = ((id, each.score) for each in found.shown for id in (each.id, *copies.get(each.id, ())))
    return _best((number, score) for id, score in scored if (number := parse_topic_id(id)) and number > 0)


def _messages(found: SearchResult) -> dict[int, float]:
    return _best((message, passage.score) for passage in found.best_passages for message in passage.messages)


def _facts(owner: ChatUser, topics: Scores) -> dict[int, float]:
    of_topic: dict[int, list[int]] = {}
    for fact, topic in Fact.objects.filter(owner=owner, topic__in=topics).order_by("pk").values_list("pk", "topic"):
        of_topic.setdefault(topic, []).append(fact)
    return _best((fact, score) for topic, score in topics.items() for fact in of_topic.get(topic, ()))


def _best(scored: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The first score of each number, for the first ``MOST_FOUND``."""
    found: dict[int, float] = {}
    for number, score in scored:
        if len(found) < MOST_FOUND:
            found.setdefault(number, score)
    return found
