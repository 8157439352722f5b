"""Restricts a search to the messages that ``Where`` permits.

A passage is found when one of its messages is permitted, and then only those are read from it. The statement is part of
the round trip that compares, and is sent only when something is set. Scores are always those of the whole memory; a
passage that is not permitted is only left out of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from memoryapp.engine.fusion import TopicPassages
from memoryapp.engine.memory import AtHand, Where
from memoryapp.engine.storable import storable
from memoryapp.operations.database import SqlStatement, array
from memoryapp.past import LIVE_AT
from memoryapp.reading import permitted
from memoryapp.search.columns import int64s, positions
from memoryapp.search.index_cache import MemoryIndex

PAIRS = """
SELECT string_agg(int8send(coalesce(m.topic_id, 0)), ''::bytea), string_agg(int8send(pm.passage_id), ''::bytea),
       string_agg(int8send(m.id), ''::bytea)
FROM memoryapp_message m JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
WHERE m.owner_id = %(owner)s AND NOT m.is_withdrawn AND {conditions}
"""
# The topics of a moment in place of those of today; what was said since is in none of them.
PAIRS_AS_OF = f"""
SELECT string_agg(int8send(tm.topic_id), ''::bytea), string_agg(int8send(pm.passage_id), ''::bytea),
       string_agg(int8send(m.id), ''::bytea)
FROM ({LIVE_AT}) live JOIN memoryapp_topicmessage tm ON tm.topic_id = live.topic_id AND tm.owner_id = %(owner)s
JOIN memoryapp_message m ON m.id = tm.message_id JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
WHERE NOT m.is_withdrawn AND {{conditions}}
"""
AT_HAND = """
SELECT id FROM memoryapp_message WHERE owner_id = %(owner)s AND topic_id IS NULL AND NOT is_withdrawn
AND (id = ANY(%(ids)s::bigint[]) OR btrim(text, E' \\t\\n\\r') = ANY(%(texts)s::text[]))
"""


def pairs_sql(owner_id: int, where: Where) -> SqlStatement | None:
    """The statement that reads the topics (0 for none) and passages of the permitted messages; none when no filter is
    set."""
    if not (where.has_filters or where.as_of):
        return None
    conditions, values = permitted(where)
    pairs = PAIRS_AS_OF if where.as_of else PAIRS
    return pairs.format(conditions=conditions), {"owner": owner_id, "as_of": where.as_of, **values}


def at_hand_sql(owner_id: int, query: str, known: AtHand) -> SqlStatement:
    """The statement that reads which messages of active sessions the caller has at hand, by number or by text; the
    query is one of these texts, because clients store it before they ask."""
    stripped = (storable(text).strip() for text in (query, *known.texts))
    texts = list(dict.fromkeys(filter(None, stripped)))
    return AT_HAND, {"owner": owner_id, "ids": array(known.messages), "texts": texts}


def let_through(where: Where, index: MemoryIndex, rows: Sequence[Any]) -> TopicPassages:
    """Each topic with those of its passages that contain a permitted message of it; so are active sessions. With a
    filter ``rows`` contains the row of ``PAIRS``."""
    if not (where.has_filters or where.as_of):
        return index.topics.but(where.never_topics)
    passages, sessions = index.passages.ids, index.active.session_of
    of_topics, of_passages, of_messages = map(int64s, rows[0])
    in_session = np.flatnonzero(of_topics == 0)
    of_topics[in_session] = [sessions.get(number, 0) for number in of_messages[in_session].tolist()]
    known = of_topics != 0
    places, here = positions(passages, of_passages[known])
    return TopicPassages.of(of_topics[known][here], places)
