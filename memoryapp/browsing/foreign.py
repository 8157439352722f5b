"""Summaries in another language than their topics' messages: those of a model that answered in a language of its own.

Letters are compared first, because they are stored with each passage. Where both are Latin, the most frequent words of
the summary and of the first messages tell their languages; a summary without such words is in none.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from memoryapp.engine.text.languages import latin_language
from memoryapp.engine.text.lexical import WIDE
from memoryapp.models import ChatUser

# A talk in Latin letters has at most this share of passages in others, and the other way round; what lies between is
# mixed, and no summary of it is foreign.
MIXED_FROM = 0.2
# Of each topic so many messages show its language, by so many characters each.
_MESSAGES, _CHARS = 8, 200

# The topics of these owners with their summaries, and whether letters tell that it is foreign; a summary without
# letters has no language.
SUMMARIES = f"""
SELECT topic.owner_id, topic.id, topic.summary,
       CASE WHEN octet_length(topic.summary) > {WIDE} * char_length(topic.summary) THEN talk.wide <= {MIXED_FROM}
            ELSE talk.wide >= {1 - MIXED_FROM} END,
       octet_length(topic.summary) <= {WIDE} * char_length(topic.summary) AND talk.wide <= {MIXED_FROM}
FROM memoryapp_topic topic JOIN (
    SELECT m.topic_id, avg(p.is_wide::int) AS wide
    FROM memoryapp_message m
    JOIN memoryapp_passagemessage pm ON pm.message_id = m.id AND pm.owner_id = m.owner_id
    JOIN memoryapp_passage p ON p.id = pm.passage_id
    WHERE m.owner_id = ANY(%s::bigint[]) AND m.topic_id IS NOT NULL GROUP BY m.topic_id
) talk ON talk.topic_id = topic.id
WHERE topic.is_live AND topic.summary ~ '[[:alpha:]]'
"""
BEGINNINGS = f"""
SELECT listed.topic, string_agg(said.text, ' ')
FROM unnest(%s::bigint[]) AS listed (topic) CROSS JOIN LATERAL (
    SELECT left(text, {_CHARS}) AS text FROM memoryapp_message
    WHERE topic_id = listed.topic ORDER BY sent_at, id LIMIT {_MESSAGES}
) said GROUP BY listed.topic
"""


def foreign_summaries(owners: Sequence[int]) -> dict[int, list[int]]:
    """The numbers of the live topics with one, by the number of their chat user; two queries.

    Every message's passages are looked at, and the beginnings of talks whose summary is in a language that is known.
    """
    found: dict[int, list[int]] = {owner: [] for owner in owners}
    latin: dict[int, tuple[int, str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(SUMMARIES, [list(owners)])
        for owner, topic, summary, is_foreign, is_latin in cursor.fetchall():
            if is_foreign:
                found[owner].append(topic)
            elif is_latin and (language := latin_language(summary)):
                latin[topic] = (owner, language)
        cursor.execute(BEGINNINGS, [list(latin)])
        for topic, talk in cursor.fetchall():
            owner, language = latin[topic]
            if latin_language(talk) not in ("", language):
                found[owner].append(topic)
    return found


def topics_with_foreign_summary(owner: ChatUser) -> list[int]:
    """The numbers of this owner's live topics that have one."""
    return foreign_summaries([owner.pk])[owner.pk]
