"""Which words of a query are so common that a large memory is not searched for them.

To read tens of thousands of passages takes most of a search's time, and what so many of them hold tells them apart the
least. So passages are searched for the rarest words of a query, and the others, its common words, are counted in the
passages that those find: as the "common terms query" of Lucene does. How many passages hold a word is told by an even
sample of them, and counted where no passage of the sample holds it.

On the development set (``engine.fusion``), with as many passages searched as a share of all (recall@5 / recall@10 /
MRR): all .882 / .934 / .827, an eighth .882 / .935 / .828, a fifteenth, which ``MOST`` is of 150,000, .873 / .930 /
.820, a thirtieth .859 / .927 / .810.
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
from memoryapp.operations.database import Unprepared, array, together
from memoryapp.search.columns import Ids, Positions
from memoryapp.search.words import WORDS

# How many passages are searched for all words of a query together, unless its rarest word alone is in more.
MOST = 10_000
# A word in a fifteenth of the passages is estimated within an eighth by so many of them.
SAMPLE = 1_000

# For each word: how many passages of the sample hold it, and, where none does, how many of all.
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
    """The ``words`` that passages are not searched for, and about how many passages hold each of their ``terms``, which
    are their base forms."""

    words: tuple[str, ...] = ()
    terms: Mapping[str, int] = field(default_factory=dict)


def step(n: int) -> int:
    """How far the passages of the sample stand apart among ``n``, by id."""
    return max(n // SAMPLE, 1)


async def of_query(
    connection: AsyncConnection[Any], owner_id: int, queries: Mapping[str, str], passages: Ids
) -> CommonWords:
    """The common words of a query in all its wordings; none in a memory that is small enough to be searched for all."""
    n = len(passages)
    if n <= MOST:
        return CommonWords()
    values = {"owner": owner_id, "sample": array(passages[:: step(n)].tolist()), **queries}
    (rows,) = await together(connection, Unprepared(FREQUENCIES, values))
    return common({word: about(seen, n) if seen else counted for word, seen, counted in rows})


def sought(matches: Mapping[str, Matches | None], n: int) -> tuple[Mapping[str, Matches | None], CommonWords]:
    """What ``of_query`` and a search for the other words find of all ``matches`` in ``n`` passages."""
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
    """Those matches that are in these documents; None where none is."""
    here = np.isin(matches.documents, documents) if matches else np.zeros(0, np.bool_)
    return Matches(matches.documents[here], matches.counts[here]) if matches and here.any() else None


def about(seen: int, n: int) -> int:
    """How many of ``n`` passages hold a word that so many of the sample hold."""
    return round(seen * n / len(range(0, n, step(n))))


def common(holding: Mapping[str, int]) -> CommonWords:
    """Those of the words that are common, by about how many passages hold each; all forms of a word are one term."""
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
