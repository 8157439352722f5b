"""Summaries in other letters than their topics' messages: those of a model that answered in a language of its own.

Letters are compared, because they are stored with each passage: a Latin summary of Cyrillic talk is found, a German one
of English talk is not.
"""

from __future__ import annotations

from django.db import connection

from memoryapp.engine.text.lexical import WIDE
from memoryapp.models import ChatUser

# A talk in Latin letters has at most this share of passages in others, and the other way round; what lies between is
# mixed, and no summary of it is foreign.
MIXED_FROM = 0.2

# The topics of these owners whose summary is foreign; a summary without letters has no language.
FOREIGN_SUMMARIES = f"""
SELECT topic.id FROM memoryapp_topic topic JOIN (
    SELECT m.topic_id, avg(p.is_wide::int) AS wide
    FROM memoryapp_message m
    JOIN memoryapp_passagemessage pm ON pm.message_id = m.id AND pm.owner_id = m.owner_id
    JOIN memoryapp_passage p ON p.id = pm.passage_id
    WHERE m.owner_id = ANY(%s::bigint[]) AND m.topic_id IS NOT NULL GROUP BY m.topic_id
) talk ON talk.topic_id = topic.id
WHERE CASE WHEN octet_length(topic.summary) > {WIDE} * char_length(topic.summary) THEN talk.wide <= {MIXED_FROM}
      ELSE talk.wide >= {1 - MIXED_FROM} AND topic.summary ~ '[[:alpha:]]' END
"""


def topics_with_foreign_summary(owner: ChatUser) -> list[int]:
    """The numbers of this owner's topics that have one; every message's passages are looked at."""
    with connection.cursor() as cursor:
        cursor.execute(FOREIGN_SUMMARIES, [[owner.pk]])
        return [number for (number,) in cursor.fetchall()]
