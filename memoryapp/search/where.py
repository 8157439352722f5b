"""Restricts a search to the passages with a message that ``Where`` permits.

The statement is part of the round trip that compares, and is sent only when something is set. Scores are always those
of the whole memory; a passage that is not permitted is only left out of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.memory import Where
from memoryapp.operations.database import SqlStatement
from memoryapp.search.columns import Ids, int64s, positions

PAIRS = """
SELECT string_agg(int8send(m.topic_id), ''::bytea), string_agg(int8send(pm.passage_id), ''::bytea)
FROM memoryapp_message m JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
WHERE m.owner_id = %(owner)s AND m.topic_id IS NOT NULL AND {conditions}
"""
# Earlier imports stored the name of a chat under "chat".
_CONDITIONS = {
    "since": "m.sent_at >= %(since)s::date::timestamp AT TIME ZONE 'UTC'",
    "until": "m.sent_at < (%(until)s::date + 1)::timestamp AT TIME ZONE 'UTC'",
    "channels": """ARRAY[
        lower(coalesce(m.metadata->>'channel', m.metadata->>'chat')), m.metadata->>'channel_id'
    ] && ARRAY(SELECT lower(unnest(%(channels)s::text[])))""",
    "authors": "lower(m.author) = ANY(ARRAY(SELECT lower(unnest(%(authors)s::text[]))))",
}


def pairs_sql(owner_id: int, where: Where) -> SqlStatement | None:
    """The statement that reads the topics and passages of the permitted messages; none when all are permitted."""
    if not where:
        return None
    values = {name: value for name in _CONDITIONS if (value := getattr(where, name))}
    asked = PAIRS.format(conditions=" AND ".join(_CONDITIONS[name] for name in values))
    return asked, {"owner": owner_id, **{name: _column(value) for name, value in values.items()}}


def _column(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def let_through(passages: Ids, rows: Sequence[Any]) -> TopicPassages:
    """Each topic with those of ``passages`` that contain a permitted message of it, from the row of ``PAIRS``."""
    topics, ids = rows[0]
    places, here = positions(passages, int64s(ids))
    return TopicPassages.of(int64s(topics)[here], places)
