"""The live topics that say given words, in a message or in their summary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from django.db import connection

from memoryapp.effect import rescoring
from memoryapp.engine.text.lexical import idf, rarities

# Of the weight of the words, so much has to be in one passage or summary; the rest may be a slip of memory.
LEAST_SHARE = 0.5
# Topics that say nearly as much as the best may be meant as well; so many are named, of so many passages.
_AS_MUCH, _MOST, _PASSAGES = 0.8, 6, 40

TOPICS_OF = """
SELECT pm.passage_id, m.topic_id FROM memoryapp_passagemessage pm JOIN memoryapp_message m ON m.id = pm.message_id
WHERE pm.owner_id = %(owner)s AND pm.passage_id = ANY(%(passages)s::bigint[]) AND m.topic_id IS NOT NULL
GROUP BY pm.passage_id, m.topic_id
"""
SUMMARIES = """
SELECT t.id, wanted.lexeme FROM memoryapp_topic t, unnest(%(terms)s::text[]) wanted (lexeme)
WHERE t.owner_id = %(owner)s AND t.is_live AND wanted.lexeme = ANY(tsvector_to_array(t.terms))
"""


def topics_with_words(owner_id: int, text: str) -> list[int]:
    """The numbers of the live topics whose passage or summary says most of ``text``, weighed by the rarity of its
    words, the best first: that one, and others that say nearly as much.

    Empty where none says half of it. Five statements.
    """
    passages = rescoring.passages(owner_id)
    (terms,) = rescoring.terms_of([text])
    if not terms or not len(passages.ids):
        return []
    found = rescoring.term_matches(owner_id, passages.ids, [terms])
    matches = {term: found.get(term) for term in terms}
    spoken, whole = rarities(matches, len(passages.ids))
    weights = {term: idf(len(passages.ids), len(each.documents) if each else 0) for term, each in matches.items()}
    worth = _summaries(owner_id, terms, weights)
    first = np.argsort(-spoken, kind="stable")[:_PASSAGES]
    for topic, weight in _spoken(owner_id, {int(passages.ids[at]): float(spoken[at]) for at in first}):
        worth[topic] = max(worth[topic], weight)
    least = max(LEAST_SHARE * whole, _AS_MUCH * max(worth.values(), default=0.0))
    return [topic for topic in sorted(worth, key=lambda topic: (-worth[topic], topic)) if worth[topic] >= least][:_MOST]


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
