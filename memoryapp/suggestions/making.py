"""Suggestions made: what looks like one topic or like several, as far as nobody decided about it before.

Reading and comparing takes seconds in a large memory and holds nothing; only storing is a transaction, in which
makers of one owner's suggestions wait for each other. The same proposal has the same key and is stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import combinations, product
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet

from memoryapp import advisory
from memoryapp.columns import int64s
from memoryapp.curation.lineage import successors
from memoryapp.curation.settling import settle
from memoryapp.effect.rescoring import halves
from memoryapp.engine.lexical import Floats
from memoryapp.models import ChatUser, Suggestion, Topic, TopicVector
from memoryapp.suggestions.merging import Compared, Merge, Pair, merges
from memoryapp.suggestions.splitting import Split, splits

MOST_OPEN = 200
# What a topic is compared with, and how many pairs at a time: all of 4,000 topics, some hundred of the largest memory.
MOST_TOPICS = 50_000
MOST_PAIRS = 16_000_000

Kind, State = Suggestion.Kind, Suggestion.State

VECTORS = """
SELECT string_agg(int8send(topic_id), ''::bytea), string_agg(int8send(size_chars), ''::bytea),
       string_agg(halfvec_send(vector), ''::bytea)
FROM (
    SELECT v.topic_id, t.size_chars, v.vector FROM memoryapp_topicvector v
    JOIN memoryapp_topic t ON t.id = v.topic_id AND t.owner_id = %(owner)s AND t.is_live
    WHERE v.owner_id = %(owner)s AND v.profile_id = %(profile)s
    ORDER BY t.consolidation_checked, t.ended_at DESC, t.id DESC LIMIT %(most)s
) compared
"""


def with_unchecked() -> QuerySet[ChatUser]:
    """Chat users of whom a live topic has its vector and nobody has looked yet what it may be merged with."""
    vectors = TopicVector.objects.filter(topic=OuterRef("pk"))
    unchecked = Topic.objects.live().filter(Exists(vectors), owner=OuterRef("pk"), consolidation_checked=False)
    return ChatUser.objects.filter(Exists(unchecked))


def suggest(owner: ChatUser) -> int:
    """Makes what suggestions there are room for, best first; returns how many are new. Changes no topic.

    Compared are the owner's live topics that have a vector in the profile used last. In a large memory a call asks
    about some of them only, those first that nobody has looked at, and the latest of these.
    """
    newest = TopicVector.objects.filter(owner=owner).order_by("-profile").values_list("profile").first()
    if newest is None:
        return 0
    compared = _compared(owner, newest[0])
    asked = compared.ids[: compared.asked].tolist()
    return _stored(owner, _proposals(owner, compared, newest[0]), asked)


def _proposals(owner: ChatUser, compared: Compared, profile: int) -> list[Suggestion]:
    pairs, alone = _rejected(owner)
    found = merges(owner.pk, compared, pairs, MOST_OPEN)
    asked = Topic.objects.of(owner).live().in_bulk(compared.ids[: compared.asked].tolist())
    whole = [topic for number, topic in asked.items() if number not in alone]
    cut = splits(owner.pk, whole, profile, _usual(compared.vectors), MOST_OPEN)
    made = [*(_merge(owner, merge) for merge in found), *(_split(owner, split) for split in cut)]
    return sorted(made, key=lambda suggestion: -suggestion.score)


def _compared(owner: ChatUser, profile: int) -> Compared:
    with connection.cursor() as cursor:
        cursor.execute(VECTORS, {"owner": owner.pk, "profile": profile, "most": MOST_TOPICS})
        known, sizes, sent = cursor.fetchone()
    ids = int64s(known)
    asked = min(len(ids), MOST_PAIRS // max(len(ids), 1))
    return Compared(ids, int64s(sizes), halves(sent or b"", len(ids)), asked)


def _usual(vectors: Floats) -> float:
    """The mean similarity of two different topics; 0 where there are no two."""
    n = len(vectors)
    if n < 2:
        return 0.0
    # The sum of all products is the square of the sum, so no product is made.
    total = vectors.sum(axis=0)
    return float((total @ total - np.vdot(vectors, vectors)) / (n * (n - 1)))


def _rejected(owner: ChatUser) -> tuple[frozenset[Pair], frozenset[int]]:
    """Pairs of live topics that are never to be merged, and those never to be split, as their edits left them."""
    rows = list(Suggestion.objects.filter(owner=owner, state=State.NEVER).values_list("kind", "topics"))
    live = successors(owner.pk, {number for _kind, numbers in rows for number in numbers})
    holders = [(kind, [live.get(number, ()) for number in numbers]) for kind, numbers in rows]
    pairs = {
        pair
        for kind, held in holders
        if kind == Kind.MERGE
        for one, other in combinations(held, 2)
        for pair in _ordered(product(one, other))
    }
    return frozenset(pairs), frozenset(number for kind, held in holders if kind == Kind.SPLIT for number in held[0])


def _ordered(pairs: Iterable[Pair]) -> Iterator[Pair]:
    return ((min(pair), max(pair)) for pair in pairs)


def _merge(owner: ChatUser, merge: Merge) -> Suggestion:
    evidence = {**_evidence(merge), "threshold": settings.CONSOLIDATION_SIMILARITY_THRESHOLD}
    key = f"merge-{min(merge.topics)}-{max(merge.topics)}"
    return Suggestion(
        owner=owner, kind=Kind.MERGE, key=key, topics=list(merge.topics), score=merge.score, evidence=evidence
    )


def _split(owner: ChatUser, split: Split) -> Suggestion:
    evidence = {**_evidence(split), "limit": settings.SPLIT_THRESHOLD_CHARS}
    return Suggestion(
        owner=owner,
        kind=Kind.SPLIT,
        key=f"split-{split.topic}",
        topics=[split.topic],
        score=split.score,
        evidence=evidence,
    )


def _evidence(found: Merge | Split) -> dict[str, Any]:
    named = asdict(found)
    return {name: value for name, value in named.items() if name not in ("topic", "topics", "score")}


@transaction.atomic
def _stored(owner: ChatUser, made: Sequence[Suggestion], looked_at: Sequence[int]) -> int:
    """Stores what nobody proposed before, as far as there is room; how many that are."""
    advisory.take_until_commit("suggestions", owner.pk)
    settle(owner)
    rows = Suggestion.objects.filter(owner=owner)
    known = set(rows.filter(key__in=[each.key for each in made]).values_list("key", flat=True))
    room = MOST_OPEN - rows.filter(state=State.OPEN).count()
    wanted = [each for each in made if each.key not in known][: max(room, 0)]
    Suggestion.objects.bulk_create(wanted)
    # A topic may have gone while its suggestion was made.
    settle(owner)
    Topic.objects.of(owner).filter(pk__in=looked_at, consolidation_checked=False).update(consolidation_checked=True)
    return len(wanted)
