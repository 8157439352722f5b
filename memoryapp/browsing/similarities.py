"""Measures how similar the texts of a memory are in a profile, and derives thresholds from that.

Cosines of different models cannot be compared, so a threshold of one model is meaningless for another. Measured are
random pairs of one memory, nearly all of which are unrelated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection

from memoryapp.models import EmbeddingProfile

# How many memories, and how many vectors of each; chosen by a hash, so that the same page shows the same picture.
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

# Fewer pairs say nothing about rare ones.
LEAST_PAIRS = 200
# A topic that is less similar to a query than nearly all random pairs are to each other is clearly unrelated. A model
# finds what a cosine misses, so nothing more is withheld from it. In the demo memory this is 0.06 for the embedded
# model; there the best passage for a question is above 0.14 in 99 of 100 cases.
SEARCH_SHARE = 0.05
# Topics are worth comparing if they are more similar than all but a few pairs.
MERGE_SHARE = 0.995
# The columns of the picture: their width, the first and the last.
WIDTH, FIRST, LAST = 0.025, -0.25, 1.0


@dataclass(frozen=True, slots=True)
class SimilarityShare:
    """The share of all pairs, from 0 to 1, whose cosine is in the column that begins at ``start``."""

    start: float
    share: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The cosines of ``pairs``, as shares for each column; ``proposed`` is a threshold, if there were enough pairs."""

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
