"""Which summaries hold the words of past runs' queries: those of today's topics, and those that a change puts in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from memoryapp.effect.rescoring import Query
from memoryapp.models.topic import SUMMARY_TERMS
from memoryapp.search.columns import Ids, int64s
from memoryapp.search.summaries import SummaryWords, holding

HOLDING = f"""
SELECT summary.lexeme, string_agg(int8send(summary.id), ''::bytea)
FROM (
    SELECT id, unnest(tsvector_to_array(terms)) FROM memoryapp_topic WHERE owner_id = %(owner)s AND is_live
    UNION ALL
    SELECT id, unnest(tsvector_to_array({SUMMARY_TERMS.format("summary")}))
    FROM unnest(%(new)s::bigint[], %(summaries)s::text[]) AS put (id, summary)
) summary (id, lexeme) JOIN unnest(%(terms)s::text[]) wanted (lexeme) ON wanted.lexeme = summary.lexeme
GROUP BY summary.lexeme
"""


@dataclass(frozen=True, slots=True)
class QuerySummaries:
    """The topics whose summaries hold each word, and the words of each wording of one query."""

    wordings: Sequence[Sequence[str]]
    holders: Mapping[str, Ids]

    def words(self, topics: Ids, common: Collection[str]) -> SummaryWords:
        """What the summaries of these topics, which are ascending, say of the query, as a search has it."""
        matches = [
            {word: holding(topics, self.holders[word]) if word in self.holders else None for word in wording}
            for wording in self.wordings
        ]
        return SummaryWords.of(topics, matches, common)


def summaries_for(
    owner_id: int, queries: Sequence[Query], stems: Sequence[Sequence[str]], put: Mapping[int, str]
) -> list[QuerySummaries]:
    """For each query, with the ``stems_of`` all: which of the owner's live topics hold its words, and which of those
    that are to be ``put`` in, by number."""
    each = iter(stems)
    wordings = [[next(each) for _wording in query.wordings] for query in queries]
    terms = sorted({word for wording in stems for word in wording})
    values: dict[str, Any] = {"owner": owner_id, "new": [*put], "summaries": [*put.values()], "terms": terms}
    with connection.cursor() as cursor:
        cursor.execute(HOLDING, values)
        holders = {lexeme: int64s(ids) for lexeme, ids in cursor.fetchall()}
    return [QuerySummaries(of_query, holders) for of_query in wordings]
