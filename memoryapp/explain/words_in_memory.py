"""The live topic that says given words, in a message or in its summary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from django.db import connection

from memoryapp.effect import rescoring
from memoryapp.engine.text.lexical import idf, rarities

# Of the weight of the words, so much has to be in one passage or summary; the rest may be a slip of memory.
LEAST_SHARE = 0.5

TOPIC_OF = """
SELECT m.topic_id FROM memoryapp_passagemessage pm JOIN memoryapp_message m ON m.id = pm.message_id
WHERE pm.owner_id = %(owner)s AND pm.passage_id = %(passage)s AND m.topic_id IS NOT NULL
GROUP BY m.topic_id ORDER BY count(*) DESC, m.topic_id LIMIT 1
"""
SUMMARIES = """
SELECT t.id, wanted.lexeme FROM memoryapp_topic t, unnest(%(terms)s::text[]) wanted (lexeme)
WHERE t.owner_id = %(owner)s AND t.is_live AND wanted.lexeme = ANY(tsvector_to_array(t.terms))
"""


def topic_with_words(owner_id: int, text: str) -> int | None:
    """The number of the live topic whose passage or summary says most of ``text``, weighed by the rarity of its words.

    None where none says half of it. Five statements.
    """
    passages = rescoring.passages(owner_id)
    (terms,) = rescoring.terms_of([text])
    if not terms or not len(passages.ids):
        return None
    found = rescoring.term_matches(owner_id, passages.ids, [terms])
    matches = {term: found.get(term) for term in terms}
    spoken, whole = rarities(matches, len(passages.ids))
    weights = {term: idf(len(passages.ids), len(each.documents) if each else 0) for term, each in matches.items()}
    topic, in_summary = _summary(owner_id, terms, weights)
    best = int(np.argmax(spoken))
    if max(float(spoken[best]), in_summary) < LEAST_SHARE * whole:
        return None
    return topic if in_summary > spoken[best] else _topic_of(owner_id, int(passages.ids[best]))


def _summary(owner_id: int, terms: Sequence[str], weights: dict[str, float]) -> tuple[int | None, float]:
    """The topic whose summary says most of the words, and their weight."""
    spoken: defaultdict[int, float] = defaultdict(float)
    with connection.cursor() as cursor:
        cursor.execute(SUMMARIES, {"owner": owner_id, "terms": list(terms)})
        for topic, term in cursor.fetchall():
            spoken[topic] += weights.get(term, 0.0)
    best = max(spoken, key=lambda topic: (spoken[topic], -topic), default=None)
    return best, 0.0 if best is None else spoken[best]


def _topic_of(owner_id: int, passage: int) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(TOPIC_OF, {"owner": owner_id, "passage": passage})
        row = cursor.fetchone()
    return row[0] if row else None
