"""The live topics that say given words, in a message or in their summary; and those near to them in meaning."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from asgiref.sync import async_to_sync
from django.db import connection
from pgvector import HalfVector
from pgvector.django import CosineDistance

from memoryapp.effect import rescoring
from memoryapp.engine.embeddings import EmbeddingError, Profile
from memoryapp.engine.text.lexical import idf, rarities
from memoryapp.llm import clients
from memoryapp.models import PassageVector
from memoryapp.search import profiles

# Of the weight of the words, so much has to be in one passage or summary; the rest may be a slip of memory.
LEAST_SHARE = 0.5
# Topics that say nearly as much as the best may be meant as well; so many are named, of so many passages.
_AS_MUCH, _MOST, _PASSAGES = 0.8, 6, 40
# For the vector of a text that shares no word with the memory.
_SECONDS = 4.0

TOPICS_OF = """
SELECT pm.passage_id, m.topic_id FROM memoryapp_passagemessage pm JOIN memoryapp_message m ON m.id = pm.message_id
WHERE pm.owner_id = %(owner)s AND pm.passage_id = ANY(%(passages)s::bigint[]) AND m.topic_id IS NOT NULL
GROUP BY pm.passage_id, m.topic_id
"""
SUMMARIES = """
SELECT t.id, wanted.lexeme FROM memoryapp_topic t, unnest(%(terms)s::text[]) wanted (lexeme)
WHERE t.owner_id = %(owner)s AND t.is_live AND wanted.lexeme = ANY(tsvector_to_array(t.terms))
"""


def topics_with_words(owner_id: int, text: str) -> dict[int, float]:
    """The live topics whose passage or summary says most of ``text``, by their numbers, each with the weight of its
    words by their rarity, the best first: that one, and others that say as much or nearly as much.

    Empty where none says half of it. Five statements.
    """
    passages = rescoring.passages(owner_id)
    (terms,) = rescoring.terms_of([text])
    if not terms or not len(passages.ids):
        return {}
    found = rescoring.term_matches(owner_id, passages.ids, [terms])
    matches = {term: found.get(term) for term in terms}
    spoken, whole = rarities(matches, len(passages.ids))
    weights = {term: idf(len(passages.ids), len(each.documents) if each else 0) for term, each in matches.items()}
    worth = _summaries(owner_id, terms, weights)
    first = np.argsort(-spoken, kind="stable")[:_PASSAGES]
    for topic, weight in _spoken(owner_id, {int(passages.ids[at]): float(spoken[at]) for at in first}):
        worth[topic] = max(worth[topic], weight)
    least = max(LEAST_SHARE * whole, _AS_MUCH * max(worth.values(), default=0.0))
    best = sorted((topic for topic in worth if worth[topic] >= least), key=lambda topic: (-worth[topic], topic))
    return {topic: round(worth[topic], 6) for topic in best[:_MOST]}


def topics_near(owner_id: int, text: str) -> list[int] | None:
    """The live topics with a passage near to ``text`` in meaning, the nearest first: as near as the best passage for a
    question usually is, and nearly as near as the first. None where nothing can be compared, for want of a vector."""
    row = profiles.serving()
    profile = profiles.profile_of(row)
    try:
        vector = async_to_sync(_vector)(text, profile)
    except (EmbeddingError, TimeoutError):
        return None
    stored = PassageVector.objects.filter(owner=owner_id, profile=row)
    near = stored.annotate(distance=CosineDistance("vector", HalfVector(vector))).order_by("distance")
    rows = dict(near.values_list("passage", "distance")[:_PASSAGES])
    least = max(profile.related, profile.usual_best, _AS_MUCH * (1 - min(rows.values(), default=1.0)))
    cosines = {passage: 1 - distance for passage, distance in rows.items() if 1 - distance >= least}
    spoken = sorted(_spoken(owner_id, cosines), key=lambda each: -each[1])
    return list(dict.fromkeys(topic for topic, _cosine in spoken))[:_MOST] if rows else None


async def _vector(text: str, profile: Profile) -> Any:
    async with asyncio.timeout(_SECONDS), clients.http_client() as http:
        return (await clients.embedder_of(profile, http).embed(profile.as_queries([text])))[0]


def _summaries(owner_id: int, terms: Sequence[str], weights: Mapping[str, float]) -> defaultdict[int, float]:
    """The weight of the words that the summary of each topic says."""
    spoken: defaultdict[int, float] = defaultdict(float)
    with connection.cursor() as cursor:
        cursor.execute(SUMMARIES, {"owner": owner_id, "terms": list(terms)})
        for topic, term in cursor.fetchall():
            spoken[topic] += weights.get(term, 0.0)
    return spoken


def _spoken(owner_id: int, passages: Mapping[int, float]) -> list[tuple[int, float]]:
    """Topics with the weight of the words that one of their passages says."""
    with connection.cursor() as cursor:
        cursor.execute(TOPICS_OF, {"owner": owner_id, "passages": list(passages)})
        return [(topic, passages[passage]) for passage, topic in cursor.fetchall()]
