"""Copies among the results of a search: what each passage says, read once and kept in the index cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memoryapp.engine.text.copies import Saying, key_of
from memoryapp.engine.text.passages import label
from memoryapp.operations.database import SqlStatement, array

SAYINGS = """
SELECT p.id, p.text, bool_and(m.forwarded_from <> ''), extract(epoch FROM min(m.sent_at))::float8,
       array_agg(m.author), array_agg(m.role), array_agg(m.forwarded_from)
FROM memoryapp_passage p
JOIN memoryapp_passagemessage of_passage ON of_passage.passage_id = p.id
JOIN memoryapp_message m ON m.id = of_passage.message_id
WHERE p.owner_id = %(owner)s AND p.id = ANY(%(passages)s::bigint[])
GROUP BY p.id
"""


def sayings_sql(owner_id: int, passages: Sequence[int]) -> SqlStatement | None:
    """The statement that reads what these passages say."""
    return (SAYINGS, {"owner": owner_id, "passages": array(passages)}) if passages else None


def sayings(rows: Iterable[Sequence[Any]]) -> dict[int, Saying]:
    """What each passage says, by its id, from the rows of ``SAYINGS``."""
    found = {}
    for id, text, is_forwarded, seconds, *wrote in rows:
        labels = {label(*each) for each in zip(*wrote, strict=True)}
        found[id] = Saying(key_of(text, labels), is_forwarded, seconds)
    return found
