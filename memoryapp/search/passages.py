"""The best passages of a search: their text, their messages, and the live topics that hold those; and what each says,
by which copies are recognised.

What a whole topic adds to the score of its best passage is left out here: a topic that its summary found rarely says
the answer in that passage. Counted, the first ten passages contain less of the evidence (demo memory, Russian .598 to
.553, English .611 to .589, forty older questions .704 to .654; archive of the development set .807 to .806)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from memoryapp.engine.beside import table_beside
from memoryapp.engine.fusion import descending
from memoryapp.engine.memory import ANYWHERE, MessageContent, Where
from memoryapp.engine.strategies.strategy import FoundPassage
from memoryapp.engine.text.excerpts import Saying, key_of, originals
from memoryapp.engine.text.passages import label, line_of, parts_of
from memoryapp.memory.content import permitted
from memoryapp.platform.database import SqlRead, SqlStatement, array
from memoryapp.search.columns import Positions
from memoryapp.search.scores import ScoredTexts

_SQL = table_beside(__file__)
ROWS: str = _SQL["rows"]
# The messages that a restricted search may read of each passage.
MESSAGES: str = _SQL["messages"]

SAYINGS: str = _SQL["sayings"]


def best(scored: ScoredTexts, most: int, within: Positions) -> Positions:
    """The positions of the ``most`` best passages among those ``within``, shape (passages,). Equal scores are ordered
    by position."""
    return within[descending(scored.fused[within])[:most]] if most else np.zeros(0, np.intp)


def best_read(
    owner_id: int, scored: ScoredTexts, at: Positions, where: Where = ANYWHERE
) -> SqlRead[dict[int, Sequence[Any]]]:
    """Reads the passages at these positions: the row of each by its id."""
    rows = texts_sql(owner_id, scored.ids[at].tolist(), where) if len(at) else None
    return SqlRead(rows, lambda found: {id: row for id, *row in found})


def texts_sql(owner_id: int, ids: Sequence[int], where: Where = ANYWHERE) -> SqlStatement:
    """The statement that reads the texts and permitted messages of these passages, as rows of ``ROWS``."""
    conditions, values = permitted(where)
    rows = ROWS.format(messages=MESSAGES if where else "NULL", conditions=conditions)
    return rows, {"owner": owner_id, "passages": array(ids), **values}


def find_passages(
    scored: ScoredTexts,
    at: Positions,
    rows: Mapping[int, Sequence[Any]],
    sayings: Mapping[int, Saying],
    sessions: Mapping[int, int],
) -> tuple[FoundPassage, ...]:
    """The passages with what ``best_read`` read, one of several copies; a passage that was erased meanwhile is
    left out. ``sessions`` are the active ones by their messages; they count as topics where there is none yet."""
    numbers = scored.numbers(at)
    places = {id: place for place, id in enumerate(scored.ids[at].tolist()) if id in rows}
    owner = originals(list(places), sayings)
    here = [(places[id], id) for id in dict.fromkeys(owner.get(id, id) for id in places)]
    return tuple(
        FoundPassage(
            id=id,
            rank=rank,
            cosine=numbers.cosine[place],
            bm25=numbers.bm25[place],
            fused=numbers.fused[place],
            score=numbers.score[place],
            text=text_of(rows[id][0], rows[id][3]),
            messages=tuple(rows[id][1]),
            topics=tuple(rows[id][2]) or tuple(dict.fromkeys(sessions[m] for m in rows[id][1] if m in sessions)),
        )
        for rank, (place, id) in enumerate(here, start=1)
    )


def text_of(passage: str, rows: Sequence[Mapping[str, Any]] | None) -> str:
    """The passage, or the lines of the messages of it that may be read."""
    if rows is None:
        return passage
    messages = [MessageContent(**{**row, "sent_at": datetime.fromisoformat(row["sent_at"])}) for row in rows]
    return "\n".join(map(line_of, parts_of(passage, messages)))


def sayings_read(owner_id: int, passages: Sequence[int]) -> SqlRead[dict[int, Saying]]:
    """Reads what these passages say, by their ids."""
    statement = (SAYINGS, {"owner": owner_id, "passages": array(passages)}) if passages else None
    return SqlRead(statement, _sayings)


def _sayings(rows: Iterable[Sequence[Any]]) -> dict[int, Saying]:
    found = {}
    for id, text, is_forwarded, seconds, *wrote in rows:
        labels = {label(*each) for each in zip(*wrote, strict=True)}
        found[id] = Saying(key_of(text, labels), is_forwarded, seconds)
    return found
