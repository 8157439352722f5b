"""Common words: the words of a query that are too frequent in a large memory to search for.

Reading tens of thousands of passages takes most of a search's time, and a word that is in so many of them hardly
distinguishes them. So a search looks for passages with the rarest words of the query, and counts the other words, its
common words, only in those passages, like the "common terms query" of Lucene. The number of passages with a word is
estimated from an evenly spaced sample; a word that no passage of the sample contains is counted.

On the development set (``engine.fusion``), by the share of all passages that is searched (recall@5 / recall@10 / MRR):
all .882 / .934 / .827; an eighth .882 / .935 / .828; a fifteenth, which is ``MOST`` of 150,000, .873 / .930 / .820; a
thirtieth .859 / .927 / .810.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from psycopg import AsyncConnection

from memoryapp.engine.text.irregular import base
from memoryapp.engine.text.lexical import Matches
from memoryapp.operations.database import Unprepared, array, round_trip
from memoryapp.search.columns import Ids, Positions
from memoryapp.search.words import WORDS

# How many passages a search may read for the words of a query; more only when its rarest word alone is in more.
MOST = 10_000
# With a sample of this size, the frequency of a word in a fifteenth of the passages is off by an eighth.
SAMPLE = 1_000

# For each word: how many passages of the sample contain it, and, if none does, how many of all passages do.
FREQUENCIES = f"""
SELECT word, sampled, CASE WHEN sampled = 0 THEN (
    SELECT count(*) FROM memoryapp_passage
    WHERE owner_id = %(owner)s AND terms @@ array_to_tsvector(ARRAY[word])::text::tsquery
) END
FROM (
    SELECT word, count(id) AS sampled FROM unnest(tsvector_to_array{WORDS}) AS wanted (word) LEFT JOIN (
        SELECT id,
               unnest(tsvector_to_array(ts_filter(setweight(terms, 'A', tsvector_to_array{WORDS}), '{{a}}'))) AS word
        FROM memoryapp_passage WHERE owner_id = %(owner)s AND id = ANY(%(sample)s::bigint[])
    ) AS found USING (word)
    GROUP BY word
) AS counted
"""


@dataclass(frozen=True, slots=True)
class CommonWords:
    """The ``words`` of a query that are not searched for. ``terms`` are their base forms, each with the estimated
    number of passages that contain it."""

    words: tuple[str, ...] = ()
    terms: Mapping[str, int] = field(default_factory=dict)


def step(n: int) -> int:
    """The distance between two passages of the sample, by position among ``n`` passages."""
    return max(n // SAMPLE, 1)


async def of_query(
    connection: AsyncConnection[Any], owner_id: int, queries: Mapping[str, str], passages: Ids
) -> CommonWords:
    """The common words of a query in all its wordings. A small memory has none: it is searched for all words."""
    n = len(passages)
    if n <= MOST:
        return CommonWords()
    values = {"owner": owner_id, "sample": array(passages[:: step(n)].tolist()), **queries}
    (rows,) = await round_trip(connection, Unprepared(FREQUENCIES, values))
    return common({word: about(seen, n) if seen else counted for word, seen, counted in rows})


def sought(matches: Mapping[str, Matches | None], n: int) -> tuple[Mapping[str, Matches | None], CommonWords]:
    """What ``of_query`` and a search for the remaining words would find, computed from all ``matches`` in ``n``
    passages."""
    if n <= MOST:
        return matches, CommonWords()
    found = common({word: _about_in(each, n) for word, each in matches.items()})
    others = [each.documents for word, each in matches.items() if each and word not in found.words]
    within = np.unique(np.concatenate(others)) if others else np.zeros(0, np.intp)
    return {word: _within(each, within) if word in found.words else each for word, each in matches.items()}, found


def _about_in(matches: Matches | None, n: int) -> int:
    documents = matches.documents if matches else np.zeros(0, np.intp)
    return about(int((documents % step(n) == 0).sum()), n) or len(documents)


def _within(matches: Matches | None, documents: Positions) -> Matches | None:
    """The matches in these documents; None when there are none."""
    here = np.isin(matches.documents, documents) if matches else np.zeros(0, np.bool_)
    return Matches(matches.documents[here], matches.counts[here]) if matches and here.any() else None


def about(seen: int, n: int) -> int:
    """The estimated number of passages, of ``n``, with a word that ``seen`` passages of the sample contain."""
    return round(seen * n / len(range(0, n, step(n))))


def common(holding: Mapping[str, int]) -> CommonWords:
    """The common ones among words with a number of passages each. All forms of a word count as one term."""
    forms: defaultdict[str, list[str]] = defaultdict(list)
    for word in holding:
        forms[base(word)].append(word)
    passages = {term: sum(holding[word] for word in words) for term, words in forms.items()}
    rarest = sorted((term for term in passages if passages[term]), key=lambda term: (passages[term], term))
    reached = accumulate(passages[term] for term in rarest)
    terms = {
        term: passages[term]
        for place, (term, so_far) in enumerate(zip(rarest, reached, strict=True))
        if place and so_far > MOST
    }
    return CommonWords(tuple(word for term in terms for word in forms[term]), terms)
