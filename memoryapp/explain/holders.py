"""Which topics held messages at an earlier moment. Edits never change a topic, so each is either live then or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

# The last edit before the moment decides. Topics of a restored memory may have no edit at all.
HOLDERS = """
SELECT listed.topic_id, t.is_live, coalesce(
    (
        SELECT side.side = 'in' FROM memoryapp_editedtopic side JOIN memoryapp_topicedit e ON e.id = side.edit_id
        WHERE side.topic_id = listed.topic_id AND e.at <= %(at)s ORDER BY e.id DESC LIMIT 1
    ),
    t.created_at <= %(at)s AND NOT EXISTS (SELECT FROM memoryapp_editedtopic WHERE topic_id = listed.topic_id)
)
FROM (
    SELECT topic_id, count(*) AS n FROM memoryapp_topicmessage
    WHERE owner_id = %(owner)s AND message_id = ANY(%(messages)s::bigint[]) GROUP BY topic_id
) listed JOIN memoryapp_topic t ON t.id = listed.topic_id
WHERE t.owner_id = %(owner)s
ORDER BY listed.n DESC, listed.topic_id
"""


@dataclass(frozen=True, slots=True)
class Holders:
    """Numbers of topics, those with most of the messages first: live ``then``, live ``now``, and ``every`` one."""

    then: tuple[int, ...]
    now: tuple[int, ...]
    every: tuple[int, ...]


def holders(owner_id: int, messages: Sequence[int], at: datetime) -> Holders:
    """The topics that contain any of the messages, at that moment and now; one statement."""
    with connection.cursor() as cursor:
        cursor.execute(HOLDERS, {"owner": owner_id, "messages": list(messages), "at": at})
        rows = cursor.fetchall()
    return Holders(
        then=tuple(number for number, _now, was_live in rows if was_live),
        now=tuple(number for number, is_live, _then in rows if is_live),
        every=tuple(number for number, _now, _then in rows),
    )
