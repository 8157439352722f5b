"""How similar the texts of a memory are in a profile, measured, and the thresholds that follow from it.

Cosines of different models do not compare, so a threshold that fits one is nonsense for another. What is measured are
pairs of one memory picked at random, nearly all of which have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection

from memoryapp.models import EmbeddingProfile

# Of so many memories so many vectors each, picked by a hash, so that the same page shows the same picture.
_OWNERS, _VECTORS = 12, 100
PAIRS = """
WITH owners AS (
    SELECT id FROM memoryapp_chatuser WHERE erasing_since IS NULL ORDER BY md5(id::text) LIMIT %(owners)s
), sample AS (
    SELECT owners.id AS owner_id, picked.id, picked.vector FROM owners CROSS JOIN LATERAL (
        SELECT v.{noun}_id AS id, v.vector FROM memoryapp_{noun}vector v {joined}
        WHERE v.owner_id = owners.id AND v.profile_id = %(profile)s
        ORDER BY md5(v.{noun}_id::text) LIMIT %(vectors)s
    ) picked
)
SELECT -(a.vector <#> b.vector) FROM sample a JOIN sample b ON a.owner_id = b.owner_id AND a.id < b.id
"""
_LIVE = "JOIN memoryapp_topic t ON t.id = v.topic_id AND t.is_live"

# Fewer pairs say nothing about the rare ones.
LEAST_PAIRS = 200
# A topic that is less like a query than nearly all random pairs are like each other is plainly unrelated. A model that
# reads finds what a cosine misses, so no more is kept from it. In the demo memory this is 0.06 for the embedded model,
# where the best passage for a question lies above 0.14 in 99 of 100.
SEARCH_SHARE = 0.05
# Topics are worth comparing that are more alike than all but few pairs.
MERGE_SHARE = 0.995
# The picture: columns of this width from the first to the last.
WIDTH, FIRST, LAST = 0.025, -0.25, 1.0


@dataclass(frozen=True, slots=True)
class SimilarityShare:
    """So large a part of all pairs, from 0 to 1, has a cosine from ``start`` on."""

    start: float
    share: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The cosines of ``pairs``: what part of them lies in each column; ``proposed`` is a threshold, if enough were."""

    pairs: int
    columns: Sequence[SimilarityShare]
    proposed: float | None


@dataclass(frozen=True, slots=True)
class Similarities:
    passages: Distribution
    topics: Distribution

    @property
    def can_be_adopted(self) -> bool:
        return self.passages.proposed is not None and self.topics.proposed is not None


def measured(row: EmbeddingProfile) -> Similarities:
    """Pairs of passages, for the threshold of search, and pairs of live topics, for that of merges. Two queries."""
    return Similarities(
        passages=_distribution(_cosines(row, "passage", ""), SEARCH_SHARE),
        topics=_distribution(_cosines(row, "topic", _LIVE), MERGE_SHARE),
    )


def _cosines(row: EmbeddingProfile, noun: str, joined: str) -> list[float]:
    with connection.cursor() as cursor:
        values = {"profile": row.pk, "owners": _OWNERS, "vectors": _VECTORS}
        cursor.execute(PAIRS.format(noun=noun, joined=joined), values)
        return [cosine for (cosine,) in cursor.fetchall()]


def _distribution(cosines: Sequence[float], share: float) -> Distribution:
    edges = np.arange(FIRST, LAST + WIDTH / 2, WIDTH)
    counts, _edges = np.histogram(np.clip(cosines, FIRST, LAST), edges)
    shares = counts / max(1, len(cosines))
    columns = [
        SimilarityShare(round(float(start), 3), float(part)) for start, part in zip(edges[:-1], shares, strict=True)
    ]
    proposed = float(np.clip(np.quantile(cosines, share), 0, 1)) if len(cosines) >= LEAST_PAIRS else None
    return Distribution(len(cosines), columns, None if proposed is None else round(proposed, 2))
