"""Finds pairs of topics that look like one: near in meaning, with bonuses for people and selections that they share.

Some hundred topics at a time are compared with all of the owner's, as one product of matrices; only the nearest few of
each are examined further. Shared people, or having been selected together, raise a pair whose similarity is almost
sufficient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np
from django.conf import settings
from django.db import connection

from memoryapp.curation.lineage import successors
from memoryapp.effect import rescoring
from memoryapp.effect.assignments import message_passages
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.text.lexical import Floats, Indices, Matches
from memoryapp.models import Person, Topic
from memoryapp.operations import metrics
from memoryapp.search.columns import Ids

# What a shared person or a common selection adds to the similarity, and up to how many count.
_LIFT, _MOST_LIFTS = 0.02, 3
# A person who is mentioned in more than this share of the compared topics says nothing about two of them.
_COMMON_SHARE = 0.25
_PEOPLE = 300
_PEOPLE_LISTED = 5
_RUNS = 300
# Rows of one product, so that it needs only tens of megabytes in the largest memory.
_AT_ONCE = 128

CHOSEN = """
SELECT ARRAY(SELECT jsonb_path_query(e.payload, '$.selected[*].id') #>> '{}')
FROM (
    SELECT id FROM memoryapp_run
    WHERE owner_id = %(owner)s AND evaluation_id IS NULL AND origin = '' AND state = 'finished'
    ORDER BY created_at DESC, id DESC LIMIT %(most)s
) r
JOIN memoryapp_runevent e ON e.run_id = r.id AND e.kind = 'run_finished'
"""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Merge:
    """Two topics, the older first, and the reasons why they may be one."""

    topics: Pair
    score: float
    similarity: float
    people: tuple[str, ...]
    together: int
    runs: int
    size_chars: int
    days_apart: int


@dataclass(frozen=True, slots=True)
class TopicVectors:
    """Live topics to compare: ids and lengths in characters, shape (n,), and as ``matrix`` unit vectors, (n,
    dimensions).

    Each of the first ``asked`` topics is compared with all.
    """

    ids: Ids
    sizes: Ids
    matrix: Floats
    asked: int


def merges(owner_id: int, vectors: TopicVectors, never: frozenset[Pair], threshold: float) -> list[Merge]:
    """Pairs of a topic in question and any other whose similarity is at least ``threshold``, best first, without
    ``never``."""
    near = dict(_near_pairs(vectors, never, threshold - _LIFT * _MOST_LIFTS))
    alike = Counter(number for pair in near for number in pair)
    metrics.compared((alike[number] for number in vectors.ids[: vectors.asked].tolist()), owner_id)
    topics = Topic.objects.of(owner_id).live().in_bulk({number for pair in near for number in pair})
    # One of a pair may have been retired meanwhile.
    near = {pair: similarity for pair, similarity in near.items() if topics.keys() >= set(pair)}
    people = _people(owner_id, {number for pair in near for number in pair})
    chosen = _choices(owner_id)
    together = Counter(pair for choice in chosen for pair in combinations(sorted(choice), 2))
    found = (_merge(topics, pair, near[pair], people, together, len(chosen)) for pair in near)
    enough = [merge for merge in found if merge.score >= threshold]
    return sorted(enough, key=lambda merge: (-merge.score, merge.topics))


def _near_pairs(vectors: TopicVectors, never: frozenset[Pair], least: float) -> Iterator[tuple[Pair, float]]:
    """Pairs with at least that similarity that are not too long together: for each topic the nearest few."""
    ids = vectors.ids
    count = min(settings.CONSOLIDATION_BATCH_SIZE, len(ids) - 1)
    if count < 1:
        return
    for first in range(0, vectors.asked, _AT_ONCE):
        asked = np.arange(first, min(first + _AT_ONCE, vectors.asked))
        cosines = _cosines(vectors, asked)
        nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        rows, columns = np.nonzero(np.take_along_axis(cosines, nearest, axis=1) >= least)
        for row, other in zip(rows.tolist(), nearest[rows, columns].tolist(), strict=True):
            one = asked[row]
            pair = (int(min(ids[one], ids[other])), int(max(ids[one], ids[other])))
            if pair not in never:
                yield pair, float(cosines[row, other])


def _cosines(vectors: TopicVectors, asked: Indices) -> Floats:
    """The cosine of each of the ``asked`` topics with all topics, shape (asked, n); -1 where two cannot be one."""
    sizes = vectors.sizes
    cosines: Floats = vectors.matrix[asked] @ vectors.matrix.T
    cosines[np.arange(len(asked)), asked] = -1
    cosines[sizes[asked][:, None] + sizes[None, :] > settings.MAX_MERGED_SIZE_CHARS] = -1
    return cosines


def _merge(
    topics: Mapping[int, Topic],
    pair: Pair,
    similarity: float,
    people: Mapping[int, frozenset[str]],
    together: Mapping[Pair, int],
    runs: int,
) -> Merge:
    older, newer = sorted((topics[number] for number in pair), key=lambda topic: (topic.started_at, topic.pk))
    shared = sorted(people.get(older.pk, frozenset()) & people.get(newer.pk, frozenset()))
    lifts = min(len(shared) + together.get(pair, 0), _MOST_LIFTS)
    return Merge(
        topics=(older.pk, newer.pk),
        score=round(similarity + _LIFT * lifts, 4),
        similarity=round(similarity, 4),
        people=tuple(shared[:_PEOPLE_LISTED]),
        together=together.get(pair, 0),
        runs=runs,
        size_chars=older.size_chars + newer.size_chars,
        days_apart=max((newer.started_at.date() - older.ended_at.date()).days, 0),
    )


def _people(owner_id: int, topics: set[int]) -> dict[int, frozenset[str]]:
    """The people mentioned in each of these topics, without those who are mentioned everywhere."""
    known = list(Person.objects.filter(owner=owner_id).order_by("-mention_count", "pk")[:_PEOPLE]) if topics else []
    if not known:
        return {}
    names = [(person.display_name, name) for person in known for name in _names(person)]
    ids = rescoring.passages(owner_id).ids
    terms = rescoring.terms_of([name for _called, name in names])
    matches, rows = rescoring.term_matches(owner_id, ids, terms), message_passages(owner_id, ids)
    found: dict[str, set[int]] = {}
    for (called, _name), stems in zip(names, terms, strict=True):
        places = _holding_all([matches.get(stem) for stem in stems])
        spoken_of = set(np.unique(rows.topics[np.isin(rows.places, places)]).tolist()) if len(places) else set()
        found.setdefault(called, set()).update(spoken_of & topics)
    telling = {name: where for name, where in found.items() if len(where) <= max(2, _COMMON_SHARE * len(topics))}
    return {number: frozenset(name for name, where in telling.items() if number in where) for number in topics}


def _names(person: Person) -> list[str]:
    aliases = person.aliases if isinstance(person.aliases, list) else []
    return [name for name in (person.display_name, *map(str, aliases)) if len(name) > 2]


def _holding_all(matches: Sequence[Matches | None]) -> Indices:
    """The passages that contain all of some words; none when there are no words."""
    found = [each.documents for each in matches if each]
    return reduce(np.intersect1d, found) if found and len(found) == len(matches) else np.zeros(0, np.intp)


def _choices(owner_id: int) -> list[set[int]]:
    """For each of the last runs, the live topics that hold what it selected."""
    with connection.cursor() as cursor:
        cursor.execute(CHOSEN, {"owner": owner_id, "most": _RUNS})
        runs = [list(filter(None, map(parse_topic_id, names))) for (names,) in cursor.fetchall()]
    live = successors(owner_id, _every(runs))
    return [{holders[0] for number in run if (holders := live.get(number))} for run in runs]


def _every(runs: Iterable[Iterable[int]]) -> set[int]:
    return {number for run in runs for number in run}
