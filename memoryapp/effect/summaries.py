"""Finds the words of past runs' queries in the summaries of today's topics and of those that a change puts in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from memoryapp.effect.rescoring import Query
from memoryapp.engine.text.lexical import fold
from memoryapp.search.columns import Ids, int64s
from memoryapp.search.summaries import SummaryWords
from memoryapp.search.words import holding

HOLDING = """
SELECT summary.lexeme, string_agg(int8send(summary.id), ''::bytea)
FROM (
    SELECT id, unnest(tsvector_to_array(terms)) FROM memoryapp_topic WHERE owner_id = %(owner)s AND is_live
    UNION ALL
    SELECT id, unnest(tsvector_to_array(to_tsvector('russian', summary)))
    FROM unnest(%(new)s::bigint[], %(summaries)s::text[]) AS put (id, summary)
) summary (id, lexeme) JOIN unnest(%(terms)s::text[]) wanted (lexeme) ON wanted.lexeme = summary.lexeme
GROUP BY summary.lexeme
"""


@dataclass(frozen=True, slots=True)
class QuerySummaries:
    """The words of each wording of one query, and the topics whose summaries contain each word."""

    wordings: Sequence[Sequence[str]]
    holders: Mapping[str, Ids]

    def words(self, topics: Ids, common: Collection[str]) -> SummaryWords:
        """Returns the words of the query in the summaries of these ascending ``topics``, as in a search."""
        matches = [
            {word: holding(topics, self.holders[word]) if word in self.holders else None for word in wording}
            for wording in self.wordings
        ]
        return SummaryWords.of(topics, matches, common)


def summaries_for(
    owner_id: int, queries: Sequence[Query], stems: Sequence[Sequence[str]], put: Mapping[int, str]
) -> list[QuerySummaries]:
    """Returns for each query which summaries contain its words: those of live topics, and those to be ``put`` in.

    ``stems`` are those of ``rescoring.stems_of``; ``put`` contains the new summaries by number.
    """
    each = iter(stems)
    wordings = [[next(each) for _wording in query.wordings] for query in queries]
    terms = sorted({word for wording in stems for word in wording})
    values: dict[str, Any] = {"owner": owner_id, "new": [*put], "summaries": [*map(fold, put.values())], "terms": terms}
    with connection.cursor() as cursor:
        cursor.execute(HOLDING, values)
        holders = {lexeme: int64s(ids) for lexeme, ids in cursor.fetchall()}
    return [QuerySummaries(of_query, holders) for of_query in wordings]
