"""Topics with their messages, as the engine reads them: live or retired, always of one owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row, dict_row

from memoryapp.engine.memory import MessageContent, TopicContent

MOST_TOPICS = 200
RECENT_TOPICS = 3
LAST_MESSAGES = 5

TOPICS = """
SELECT id, summary, started_at, size_chars FROM memoryapp_topic WHERE owner_id = %s AND id = ANY(%s)
"""
MESSAGES = """
SELECT tm.topic_id, m.id, m.role, m.author, m.sent_at, m.text, m.forwarded_from,
       coalesce(m.metadata ->> 'username', '') AS username, m.session
FROM memoryapp_topicmessage tm JOIN memoryapp_message m ON m.id = tm.message_id
WHERE tm.owner_id = %s AND tm.topic_id = ANY(%s)
ORDER BY m.sent_at, m.id
"""
RECENT = """
SELECT ended_at, summary FROM memoryapp_topic WHERE owner_id = %s AND is_live
ORDER BY ended_at DESC, id DESC LIMIT %s
"""
LAST = """
SELECT id, role, author, sent_at, text, forwarded_from, coalesce(metadata ->> 'username', '') AS username, session
FROM memoryapp_message WHERE owner_id = %s AND topic_id IS NULL ORDER BY sent_at DESC, id DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Background:
    """What a model may know before it reads: the latest topics, newest first, and the last of the talk."""

    recent_topics: tuple[str, ...]
    messages: tuple[MessageContent, ...]


async def background(connection: psycopg.AsyncConnection[Any], owner_id: int) -> Background:
    """The owner's three latest topics and the last five messages of the active session, oldest first."""
    topics = await (await connection.execute(RECENT, [owner_id, RECENT_TOPICS])).fetchall()
    cursor = connection.cursor(row_factory=class_row(MessageContent))
    messages = await (await cursor.execute(LAST, [owner_id, LAST_MESSAGES])).fetchall()
    return Background(tuple(f"{at:%Y-%m-%d}: {summary}" for at, summary in topics), tuple(reversed(messages)))


async def read_topics(
    connection: psycopg.AsyncConnection[Any], owner_id: int, ids: Sequence[int]
) -> list[TopicContent]:
    """The owner's topics among ``ids``, in that order, with their messages oldest first."""
    wanted = list(dict.fromkeys(ids))[:MOST_TOPICS]
    cursor = connection.cursor(row_factory=dict_row)
    topics = {row["id"]: row for row in await (await cursor.execute(TOPICS, [owner_id, wanted])).fetchall()}
    messages: dict[int, list[MessageContent]] = defaultdict(list)
    for row in await (await cursor.execute(MESSAGES, [owner_id, list(topics)])).fetchall():
        messages[row.pop("topic_id")].append(MessageContent(**row))
    return [TopicContent(messages=tuple(messages[number]), **topics[number]) for number in wanted if number in topics]
