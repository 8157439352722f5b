"""A run's query compared once with the memory as it is now, and the orders of topics that follow from that.

No model is asked: the vectors of the query are those that the run stored. One comparison serves every order that is
tried; without the rewrite, without filters, or with two topics as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from memoryapp.content.reading import permitted
from memoryapp.curation.operations.merge import composed_summary
from memoryapp.effect import rescoring
from memoryapp.effect.assignments import Assignment, MessagePassages, Rank, message_passages
from memoryapp.effect.rescoring import Query, RescoredQuery
from memoryapp.effect.summaries import QuerySummaries, summaries_for
from memoryapp.engine.candidates import RANKED
from memoryapp.engine.memory import Where
from memoryapp.explain.story import Story
from memoryapp.models import QueryVector, Topic
from memoryapp.search.columns import Ids, int64s

PERMITTED = """
SELECT string_agg(int8send(m.id), ''::bytea) FROM memoryapp_message m
WHERE m.owner_id = %(owner)s AND m.topic_id IS NOT NULL AND {conditions}
"""


@dataclass(frozen=True, slots=True)
class _Wording:
    """The query, or one wording of it, compared with passages and summaries."""

    by_passages: RescoredQuery
    by_summaries: QuerySummaries


@dataclass(frozen=True, slots=True)
class Research:
    """Orders of today's topics for a run's query. ``rows`` are all messages, ``within`` those that its filters permit.

    ``merged`` are numbers, beyond those of topics, for pairs that are tried as one.
    """

    whole: _Wording
    typed: _Wording | None
    rows: MessagePassages
    within: Ids
    merged: Mapping[int, tuple[int, int]]
    threshold: float
    by_meaning: bool

    def ranks(self, *, shown: int = RANKED, typed: bool = False, everywhere: bool = False) -> dict[int, Rank]:
        """The ranked topics when ``shown`` are shown; by the query as it was ``typed`` alone, or ``everywhere``,
        whatever the filters of the run."""
        wording = self.typed if typed and self.typed else self.whole
        return self._ranked(wording, self.rows.topics if everywhere else self.within, shown)

    def ranks_merged(self, number: int, *, shown: int) -> dict[int, Rank]:
        """The ranked topics with the pair of that number as one topic."""
        topics = np.where(np.isin(self.within, self.merged[number]), number, self.within)
        return self._ranked(self.whole, topics, shown)

    def _ranked(self, wording: _Wording, topics: Ids, shown: int) -> dict[int, Rank]:
        assignment = Assignment.of_rows(self.rows, topics, {})
        found, common = wording.by_passages.found, wording.by_passages.common
        if self.by_meaning and not np.isnan(found.cosine).all():
            nearest = assignment.passages.nearest(found.cosine).tolist()
            return {topic: Rank(rank, rank <= shown) for rank, topic in enumerate(nearest, start=1)}
        summaries = wording.by_summaries.words(assignment.passages.topics, common)
        return assignment.ranked(found, summaries, threshold=self.threshold, shown=shown)


def research(story: Story, pairs: Sequence[tuple[int, int]], threshold: float) -> Research | None:
    """The run's query compared with the memory; None for a run that did not get as far as a search."""
    queries = _queries(story)
    if not queries:
        return None
    owner = story.run.owner_id
    passages = rescoring.passages(owner)
    rows = message_passages(owner, passages.ids)
    first = int(max(rows.topics, default=0)) + 1
    merged = dict(enumerate(pairs, first))
    stems = rescoring.stems_of(queries)
    put = _summaries_of(owner, merged)
    by_summaries = summaries_for(owner, queries, stems, put)
    whole, *typed = map(_Wording, rescoring.rescored(owner, passages, queries, stems), by_summaries)
    within = _within(owner, rows, story.found.understood.where) if story.found else rows.topics
    return Research(whole, next(iter(typed), None), rows, within, merged, threshold, story.by_meaning)


def _queries(story: Story) -> list[Query]:
    """The query as the run searched it and, if it was rewritten, as it was typed."""
    line = story.outline.enriched
    if line is None:
        return []
    vectors = QueryVector.objects.filter(run=story.run.pk).values_list("profile", "vector", "typed_vector").first()
    if vectors is None:
        whole = Query(line.enriched, typed=Query(line.query) if line.enriched != line.query else None)
    else:
        profile, vector, typed_vector = vectors
        typed = None if typed_vector is None else Query(line.query, _array(typed_vector), profile)
        whole = Query(line.enriched, _array(vector), profile, typed)
    return [whole, whole.typed] if whole.typed else [whole]


def _array(vector: Any) -> Any:
    return np.asarray(vector, dtype=np.float64)


def _summaries_of(owner_id: int, merged: Mapping[int, tuple[int, int]]) -> dict[int, str]:
    """The summaries of the pairs, as a merge joins them."""
    wanted = {topic for pair in merged.values() for topic in pair}
    found = Topic.objects.of(owner_id).in_bulk(wanted) if wanted else {}
    ordered = {number: sorted((found[t] for t in pair), key=lambda t: t.started_at) for number, pair in merged.items()}
    return {number: composed_summary([topic.summary for topic in topics]) for number, topics in ordered.items()}


def _within(owner_id: int, rows: MessagePassages, where: Where) -> Ids:
    """The topic of each row, 0 for messages that ``where`` does not permit."""
    if not where:
        return rows.topics
    conditions, values = permitted(where)
    with connection.cursor() as cursor:
        cursor.execute(PERMITTED.format(conditions=conditions), {"owner": owner_id, **values})
        allowed = int64s(cursor.fetchone()[0])
    return np.where(np.isin(rows.messages, allowed), rows.topics, 0)
