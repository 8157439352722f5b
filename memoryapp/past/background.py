"""What a run takes from the memory of a moment beside its search: facts, people of the inner circle, recent topics."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection

from memoryapp.content.reading import IMPORTANT, INNER_CIRCLE, MOST_FACTS, MOST_OF_CIRCLE, RECENT_TOPICS, SUMMARY_CHARS
from memoryapp.models import Fact, KnowledgeEdit, Person, RecallMode, Topic, TopicMessage
from memoryapp.past.known import rows_at
from memoryapp.past.topics import LIVE_AT

Noun = KnowledgeEdit.Noun
RECENT = f"""
SELECT ended_at, left(summary, %(chars)s), message_count, size_chars FROM memoryapp_topic
WHERE owner_id = %(owner)s AND id IN ({LIVE_AT}) AND id NOT IN (
    SELECT tm.topic_id FROM memoryapp_topic never JOIN memoryapp_message m ON m.topic_id = never.id
    JOIN memoryapp_topicmessage tm ON tm.message_id = m.id
    WHERE never.owner_id = %(owner)s AND never.is_live AND never.recall = 'never'
)
ORDER BY ended_at DESC, id DESC LIMIT %(most)s
"""


def background_at(owner_id: int, moment: datetime) -> dict[str, Any]:
    """Facts, people of the inner circle and recent topics of that moment, without what is never recalled today, in the
    form of ``reading.BACKGROUND``."""
    facts = [row for row in _recallable(owner_id, Noun.FACT, moment) if _is_important(row)]
    facts.sort(key=lambda row: (row.get("recall") != "pinned", -row["importance"]))
    people = [row for row in _recallable(owner_id, Noun.PERSON, moment) if _is_close(row)]
    people.sort(key=lambda row: (row.get("recall") != "pinned", -row["mention_count"]))
    return {
        "facts": [{name: row[name] for name in ("category", "relation", "content")} for row in facts[:MOST_FACTS]],
        "circle": [
            {name: row[name] for name in ("display_name", "username", "aliases", "circle", "bio")}
            for row in people[:MOST_OF_CIRCLE]
        ],
        "recent": _recent(owner_id, moment),
    }


def never_among(owner_id: int, topics: Collection[int]) -> set[int]:
    """Those of these topics, live or retired, that have a message in a topic that is never recalled today."""
    hidden = Topic.objects.of(owner_id).live().filter(recall=RecallMode.NEVER)
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=topics, message__topic__in=hidden)
    return set(rows.values_list("topic", flat=True))


def _recallable(owner_id: int, noun: str, moment: datetime) -> list[dict[str, Any]]:
    model: Any = Fact if noun == Noun.FACT else Person
    hidden = set(map(str, model.objects.filter(owner=owner_id, recall=RecallMode.NEVER).values_list("pk", flat=True)))
    return [row for number, row in rows_at(owner_id, noun, moment).items() if number not in hidden]


def _is_important(fact: dict[str, Any]) -> bool:
    is_wanted = fact["type"] == Fact.Type.IDENTITY or fact["importance"] >= IMPORTANT or fact.get("recall") == "pinned"
    return is_wanted and not fact.get("superseded_at")


def _is_close(person: dict[str, Any]) -> bool:
    return person["circle"] in INNER_CIRCLE or person.get("recall") == "pinned"


def _recent(owner_id: int, moment: datetime) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"owner": owner_id, "as_of": moment, "chars": SUMMARY_CHARS, "most": RECENT_TOPICS}
    names = ("ended_at", "summary", "message_count", "size_chars")
    with connection.cursor() as cursor:
        cursor.execute(RECENT, asked)
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [{**row, "ended_at": row["ended_at"].isoformat()} for row in rows]
