"""The memory as it was at a moment: which topics were live, and what was known of people and facts.

Topics never change, so their edits tell which were live. People and facts are followed back from what they are now,
through the changes since. What was erased in between is gone from every past, too.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, time
from typing import Any

from django.db import connection
from django.utils import timezone

from memoryapp.models import Fact, KnowledgeEdit, Person, RecallMode, Topic, TopicMessage
from memoryapp.reading import IMPORTANT, INNER_CIRCLE, MOST_FACTS, MOST_OF_CIRCLE, RECENT_TOPICS, SUMMARY_CHARS

Noun = KnowledgeEdit.Noun
# The last edit before the moment that concerns a topic put it in.
LIVE_AT = """
SELECT topic_id FROM (
    SELECT DISTINCT ON (side.topic_id) side.topic_id, side.side
    FROM memoryapp_editedtopic side JOIN memoryapp_topicedit edit ON edit.id = side.edit_id
    WHERE side.owner_id = %(owner)s AND edit.at <= %(as_of)s::timestamptz
    ORDER BY side.topic_id, edit.id DESC
) AS last WHERE side = 'in'
"""
RECENT = f"""
SELECT ended_at, left(summary, %(chars)s), message_count, size_chars FROM memoryapp_topic
WHERE owner_id = %(owner)s AND id IN ({LIVE_AT}) AND id NOT IN (
    SELECT tm.topic_id FROM memoryapp_topic never JOIN memoryapp_message m ON m.topic_id = never.id
    JOIN memoryapp_topicmessage tm ON tm.message_id = m.id
    WHERE never.owner_id = %(owner)s AND never.is_live AND never.recall = 'never'
)
ORDER BY ended_at DESC, id DESC LIMIT %(most)s
"""


def moment_of(text: str) -> datetime:
    """The moment that a text in ISO 8601 names, at most now; a day means its end. Raises ValueError for other texts."""
    named = datetime.fromisoformat(text)
    named = datetime.combine(named, time.max) if len(text) == len("2026-03-02") else named
    return min(named if named.tzinfo else timezone.make_aware(named), timezone.now()).astimezone(UTC)


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


def rows_at(owner_id: int, noun: str, moment: datetime) -> dict[str, dict[str, Any]]:
    """The values of the people or facts of that moment, by number: those of today without the changes since."""
    model: Any = Fact if noun == Noun.FACT else Person
    found: dict[str, dict[str, Any]] = {str(row["id"]): row for row in model.objects.filter(owner=owner_id).values()}
    created = KnowledgeEdit.objects.filter(owner=owner_id, noun=noun)
    known = {number for before in created.values_list("before", flat=True).iterator() for number in before}
    since = created.filter(at__gt=moment).order_by("-at", "-pk")
    for before in since.values_list("before", flat=True).iterator():
        for number, values in before.items():
            if values is None:
                found.pop(number, None)
            else:
                found[number] = {**found.get(number, {}), **values}
    return {number: row for number, row in found.items() if number in known or _existed(row, moment)}


def _existed(row: dict[str, Any], moment: datetime) -> bool:
    """Whether a row of which no change tells when it came was known then."""
    at = row.get("created_at") or row.get("first_seen")
    return not isinstance(at, datetime) or at <= moment


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
