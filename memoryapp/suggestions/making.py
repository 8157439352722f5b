"""Makes and stores suggestions: topics that look like one, or like several, and about which nobody has decided.

Reading and comparing takes seconds in a large memory and locks nothing. Only storing is a transaction, in which
processes that suggest for one owner wait for each other. A suggestion has a key and is stored once.
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

from memoryapp.curation.lineage import successors
from memoryapp.curation.settling import settle
from memoryapp.effect.rescoring import halves
from memoryapp.engine.text.lexical import Floats
from memoryapp.models import ChatUser, EmbeddingProfile, Suggestion, Topic, TopicVector
from memoryapp.operations import advisory_locks
from memoryapp.outgoing.webhooks.announcing import announce_waiting
from memoryapp.search.columns import int64s
from memoryapp.suggestions.merging import Merge, Pair, TopicVectors, merges
from memoryapp.suggestions.splitting import Nearness, Split, splits

MOST_OPEN = 200
# How many topics a topic is compared with, and how many pairs at a time: all of 4,000 topics, some hundred of the
# largest memory.
MOST_TOPICS = 50_000
MOST_PAIRS = 16_000_000

Kind, State = Suggestion.Kind, Suggestion.State

VECTORS = """
SELECT string_agg(int8send(topic_id), ''::bytea), string_agg(int8send(size_chars), ''::bytea),
       string_agg(halfvec_send(vector), ''::bytea)
FROM (
    SELECT v.topic_id, t.size_chars, v.vector FROM memoryapp_topicvector v
    JOIN memoryapp_topic t ON t.id = v.topic_id AND t.owner_id = %(owner)s AND t.is_live AND t.recall = ''
    WHERE v.owner_id = %(owner)s AND v.profile_id = %(profile)s
    ORDER BY t.consolidation_checked, t.ended_at DESC, t.id DESC LIMIT %(most)s
) compared
"""


def with_unchecked() -> QuerySet[ChatUser]:
    """Chat users with a live topic that has a vector and was not yet compared for a merge.

    Without chat users for whom consolidation is off, and those whose queue is full.
    """
    vectors = TopicVector.objects.filter(topic=OuterRef("pk"))
    unchecked = Topic.objects.live().filter(Exists(vectors), owner=OuterRef("pk"), consolidation_checked=False)
    waiting = Suggestion.objects.filter(owner=OuterRef("pk"), state=State.OPEN).order_by("pk")
    is_full = Exists(waiting[MOST_OPEN - 1 : MOST_OPEN])
    return ChatUser.objects.exclude(consolidation=ChatUser.Consolidation.OFF).filter(Exists(unchecked), ~is_full)


def suggest(owner: ChatUser) -> int:
    """Makes as many suggestions as there is room for, best first; returns how many are new. Changes no topic.

    Compared are the owner's live topics with a vector in the profile used last. In a large memory a call considers some
    of them only: first those that were never considered, of these the latest. If consolidation is off, only splits are
    suggested.
    """
    served = TopicVector.objects.filter(owner=owner).order_by("-profile__is_serving", "-profile")
    newest = served.values_list("profile").first()
    if newest is None:
        return 0
    vectors, least = _vectors(owner, newest[0]), threshold(newest[0])
    pairs, alone = _rejections(owner)
    is_off = owner.consolidation == ChatUser.Consolidation.OFF
    found = [] if is_off else merges(owner.pk, vectors, pairs, least)
    asked = vectors.ids[: vectors.asked].tolist()
    whole = [topic for topic in Topic.objects.of(owner).live().filter(pk__in=asked) if topic.pk not in alone]
    cut = splits(owner.pk, whole, newest[0], Nearness(_usual(vectors.matrix), least), MOST_OPEN)
    made = [*(_merge(owner, merge, least) for merge in found), *(_split(owner, split) for split in cut)]
    best_first = sorted(made, key=lambda suggestion: -suggestion.score)
    return _store(owner, best_first, looked_at=[] if is_off else asked)


def threshold(profile: int) -> float:
    """The cosine from which two topics are compared for a merge, in the profile with this id."""
    return EmbeddingProfile.objects.get(pk=profile).consolidation_threshold


def _vectors(owner: ChatUser, profile: int) -> TopicVectors:
    with connection.cursor() as cursor:
        cursor.execute(VECTORS, {"owner": owner.pk, "profile": profile, "most": MOST_TOPICS})
        known, sizes, sent = cursor.fetchone()
    ids = int64s(known)
    asked = min(len(ids), MOST_PAIRS // max(len(ids), 1))
    return TopicVectors(ids, int64s(sizes), halves(sent or b"", len(ids)), asked)


def _usual(vectors: Floats) -> float:
    """The mean similarity of two different topics; 0 when there are fewer than two."""
    n = len(vectors)
    if n < 2:
        return 0.0
    # The sum of all products equals the square of the sum, so no product is computed.
    total = vectors.sum(axis=0)
    return float((total @ total - np.vdot(vectors, vectors)) / (n * (n - 1)))


def _rejections(owner: ChatUser) -> tuple[frozenset[Pair], frozenset[int]]:
    """Pairs of live topics that are never to be merged, and topics never to be split, as their edits left them."""
    rows = list(Suggestion.objects.filter(owner=owner, state=State.NEVER).values_list("kind", "topics"))
    live = successors(owner.pk, {number for _kind, numbers in rows for number in numbers})
    holders = [(kind, [live.get(number, ()) for number in numbers]) for kind, numbers in rows]
    pairs = {
        pair
        for kind, live_topics in holders
        if kind == Kind.MERGE
        for one, other in combinations(live_topics, 2)
        for pair in _ordered(product(one, other))
    }
    whole = {number for kind, live_topics in holders if kind == Kind.SPLIT for number in live_topics[0]}
    return frozenset(pairs), frozenset(whole)


def _ordered(pairs: Iterable[Pair]) -> Iterator[Pair]:
    return ((min(pair), max(pair)) for pair in pairs)


def _merge(owner: ChatUser, merge: Merge, threshold: float) -> Suggestion:
    evidence = {**_evidence(merge), "threshold": threshold}
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
def _store(owner: ChatUser, made: Sequence[Suggestion], looked_at: Sequence[int]) -> int:
    """Stores suggestions that are new, if there is room; returns how many.

    The topics ``looked_at`` are marked as considered, unless one of their merges found no room: it is searched for
    again.
    """
    advisory_locks.acquire_until_commit("suggestions", owner.pk)
    settle(owner)
    rows = Suggestion.objects.filter(owner=owner)
    known = set(rows.filter(key__in=[each.key for each in made]).values_list("key", flat=True))
    room = MOST_OPEN - rows.filter(state=State.OPEN).count()
    new = [each for each in made if each.key not in known]
    wanted, left = new[: max(room, 0)], new[max(room, 0) :]
    Suggestion.objects.bulk_create(wanted)
    if wanted:
        announce_waiting(owner.pk)
    # A topic may have been retired while its suggestion was made.
    settle(owner)
    again = {number for each in left if each.kind == Kind.MERGE for number in each.topics}
    checked = Topic.objects.of(owner).filter(pk__in=set(looked_at) - again, consolidation_checked=False)
    checked.update(consolidation_checked=True)
    return len(wanted)
