"""The best passages of a search: their text, their messages, and the live topics that hold those.

What a whole topic adds to the score of its best passage is left out here: a topic that its summary found rarely says
the answer in that passage. Counted, the first ten passages contain less of the evidence (demo memory, Russian .598 to
.553, English .611 to .589, forty older questions .704 to .654; archive of the development set .807 to .806).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from memoryapp.engine.fusion import descending
from memoryapp.engine.strategies.ports import FoundPassage
from memoryapp.engine.text.copies import Saying, originals
from memoryapp.operations.database import SqlStatement, array
from memoryapp.search.columns import Positions
from memoryapp.search.similarity import Compared

ROWS = """
SELECT p.id, p.text, array_agg(m.id ORDER BY m.sent_at, m.id),
       coalesce(array_agg(DISTINCT m.topic_id) FILTER (WHERE m.topic_id IS NOT NULL), '{}')
FROM memoryapp_passage p
JOIN memoryapp_passagemessage of_passage ON of_passage.passage_id = p.id
JOIN memoryapp_message m ON m.id = of_passage.message_id
WHERE p.owner_id = %(owner)s AND p.id = ANY(%(passages)s::bigint[])
GROUP BY p.id
"""


def best(compared: Compared, most: int, within: Positions) -> Positions:
    """The positions of the ``most`` best passages among those ``within``, shape (passages,). Equal scores are ordered
    by position."""
    return within[descending(compared.fused[within])[:most]] if most else np.zeros(0, np.intp)


def rows_sql(owner_id: int, compared: Compared, at: Positions) -> SqlStatement | None:
    """The statement that reads the texts and messages of the passages at these positions; none for no positions."""
    return (ROWS, {"owner": owner_id, "passages": array(compared.ids[at].tolist())}) if len(at) else None


def find_passages(
    compared: Compared, at: Positions, rows: Iterable[Sequence[Any]], sayings: Mapping[int, Saying]
) -> tuple[FoundPassage, ...]:
    """The passages with the data of ``ROWS``, one of several copies; a passage that was erased meanwhile is
    left out."""
    known = {id: row for id, *row in rows}
    numbers = compared.numbers(at)
    places = {id: place for place, id in enumerate(compared.ids[at].tolist()) if id in known}
    of = originals(list(places), sayings)
    here = [(places[id], id) for id in dict.fromkeys(of.get(id, id) for id in places)]
    return tuple(
        FoundPassage(
            id=id,
            rank=rank,
            cosine=numbers.cosine[place],
            bm25=numbers.bm25[place],
            fused=numbers.fused[place],
            score=numbers.score[place],
            text=known[id][0],
            messages=tuple(known[id][1]),
            topics=tuple(known[id][2]),
        )
        for rank, (place, id) in enumerate(here, start=1)
    )
