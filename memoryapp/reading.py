"""What the memory holds, as the engine reads it: topics with their messages, and who asks. Always of one owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from memoryapp.database import array, together
from memoryapp.engine.context import Told
from memoryapp.engine.lines import plain, size_text
from memoryapp.engine.memory import MessageContent, TopicContent, item_id
from memoryapp.engine.prompts import CURRENT_MESSAGES

MOST_TOPICS = 200
RECENT_TOPICS = 3
# The profile is told with every query: what matters most of it.
MOST_FACTS = 50
IMPORTANT = 80
MOST_OF_CIRCLE = 20
# Who is told of whatever the query says; friends are found when they are wanted.
INNER_CIRCLE = ("Family", "Work_Inner")
_BIO_CHARS = 200
_SUMMARY_CHARS = 200

TOPICS = """
SELECT id, summary, started_at, size_chars FROM memoryapp_topic
WHERE owner_id = %(owner)s AND id = ANY(%(ids)s::bigint[])
"""
MESSAGES = """
SELECT tm.topic_id, m.id, m.role, m.author, m.sent_at, m.text, m.forwarded_from,
       coalesce(m.metadata ->> 'username', '') AS username, m.session
FROM memoryapp_topicmessage tm JOIN memoryapp_message m ON m.id = tm.message_id
WHERE tm.owner_id = %(owner)s AND tm.topic_id = ANY(%(ids)s::bigint[])
ORDER BY m.sent_at, m.id
"""
# Of a row ``asked``: its owner_id, and the running conversation where messages are given.
BACKGROUND = """
json_build_object(
    'facts', (SELECT json_agg(fact) FROM (
        SELECT category, relation, content FROM memoryapp_fact
        WHERE owner_id = asked.owner_id AND (type = 'identity' OR importance >= %(important)s)
        ORDER BY importance DESC, id LIMIT %(most_facts)s
    ) AS fact),
    'circle', (SELECT json_agg(person) FROM (
        SELECT display_name, username, aliases, circle, left(bio, %(bio_chars)s) AS bio FROM memoryapp_person
        WHERE owner_id = asked.owner_id AND circle = ANY(%(circles)s)
        ORDER BY mention_count DESC, id LIMIT %(most_of_circle)s
    ) AS person),
    'recent', (SELECT json_agg(topic) FROM (
        SELECT ended_at, left(summary, %(summary_chars)s) AS summary, message_count, size_chars FROM memoryapp_topic
        WHERE owner_id = asked.owner_id AND is_live ORDER BY ended_at DESC, id DESC LIMIT %(recent_topics)s
    ) AS topic),
    'last', (SELECT json_agg(message) FROM (
        SELECT id, role, author, sent_at, text, forwarded_from, coalesce(metadata ->> 'username', '') AS username,
               session
        FROM memoryapp_message
        WHERE asked.messages IS NULL AND owner_id = asked.owner_id AND topic_id IS NULL AND NOT is_withdrawn
        ORDER BY sent_at DESC, id DESC LIMIT %(last_messages)s
    ) AS message)
)"""
HOW_MUCH: Mapping[str, Any] = {
    "important": IMPORTANT,
    "most_facts": MOST_FACTS,
    "circles": list(INNER_CIRCLE),
    "most_of_circle": MOST_OF_CIRCLE,
    "bio_chars": _BIO_CHARS,
    "recent_topics": RECENT_TOPICS,
    "summary_chars": _SUMMARY_CHARS,
    "last_messages": CURRENT_MESSAGES,
}
PEOPLE = """
SELECT id, display_name, username, aliases, circle, mention_count, last_seen, bio FROM memoryapp_person
WHERE owner_id = %(owner)s AND id = ANY(%(ids)s)
"""
ARTIFACTS = """
SELECT id, file_type, name, created_at, summary, keywords, entities, rag_hints FROM memoryapp_artifact
WHERE owner_id = %(owner)s AND id = ANY(%(ids)s)
"""

Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Background:
    """What a model may know before it reads, as lines of text.

    ``profile`` is what is known of the user, ``inner_circle`` the people closest to them, ``recent_topics`` the
    latest, newest first, ``messages`` the last of the running conversation, oldest first.
    """

    profile: str
    inner_circle: tuple[str, ...]
    recent_topics: tuple[str, ...]
    messages: tuple[MessageContent, ...]


def background(
    found: Mapping[str, Any], *, profile: str = "", messages: Sequence[MessageContent] | None = None
) -> Background:
    """What ``BACKGROUND`` found, with ``HOW_MUCH``.

    ``profile`` is put before the facts; ``messages`` are the running conversation, None is the active session.
    """
    facts, circle, recent, last = (found[name] or () for name in ("facts", "circle", "recent", "last"))
    said = tuple(map(_said, reversed(last))) if messages is None else tuple(messages)
    return Background(
        profile="\n".join(filter(None, (profile.strip(), *(_fact(**row) for row in facts)))),
        inner_circle=tuple(_of_circle(**row) for row in circle),
        recent_topics=tuple(_recent(**row) for row in recent),
        messages=said[-CURRENT_MESSAGES:],
    )


def _said(row: Mapping[str, Any]) -> MessageContent:
    return MessageContent(**{**row, "sent_at": datetime.fromisoformat(row["sent_at"])})


def _fact(category: str, relation: str, content: str) -> str:
    about = " / ".join(filter(None, (category, relation)))
    return f"- {about}: {' '.join(content.split())}"


def _of_circle(display_name: str, username: str, aliases: Any, circle: str, bio: str) -> str:
    return ": ".join(filter(None, (_called(display_name, username, aliases, circle), bio)))


def _called(name: str, username: str, aliases: Any, circle: str) -> str:
    """``Петров (@petrov) (aka Петя, Pete) [Work_Inner]``."""
    also = ", ".join(plain(str(alias)) for alias in aliases) if isinstance(aliases, list) else ""
    login = plain(username.lstrip("@"))
    named = plain(name), f"(@{login})" if login else "", f"(aka {also})" if also else "", f"[{plain(circle)}]"
    return " ".join(filter(None, named))


def _recent(ended_at: str, summary: str, message_count: int, size_chars: int) -> str:
    day = _day(datetime.fromisoformat(ended_at))
    return f'{day}: "{summary}" ({message_count} msgs, {size_text(size_chars)})'


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


async def read_topics(connection: Connection, owner_id: int, ids: Sequence[int]) -> list[TopicContent]:
    """The owner's topics among ``ids``, in that order, with their messages oldest first."""
    wanted = list(dict.fromkeys(ids))[:MOST_TOPICS]
    asked = {"owner": owner_id, "ids": array(wanted)}
    found, said = await together(connection, (TOPICS, asked), (MESSAGES, asked))
    messages: dict[int, list[MessageContent]] = defaultdict(list)
    for topic, *message in said:
        messages[topic].append(MessageContent(*message))
    topics = {id: (summary, started_at, size) for id, summary, started_at, size in found}
    return [TopicContent(id, *topics[id], tuple(messages[id])) for id in wanted if id in topics]


async def read_items(
    connection: Connection, owner_id: int, people: Sequence[int], artifacts: Sequence[int]
) -> tuple[list[Told], list[Told]]:
    """The owner's people and files among these numbers, in that order, as the chat model is told of them."""
    persons, files = await together(
        connection,
        (PEOPLE, {"owner": owner_id, "ids": list(people)}),
        (ARTIFACTS, {"owner": owner_id, "ids": list(artifacts)}),
    )
    return _in_order(people, map(_person, persons)), _in_order(artifacts, map(_artifact, files))


def _in_order(wanted: Iterable[int], told: Iterable[tuple[int, Told]]) -> list[Told]:
    known: Mapping[int, Told] = dict(told)
    return [known[number] for number in wanted if number in known]


def _person(row: Sequence[Any]) -> tuple[int, Told]:
    number, name, username, aliases, circle, mentions, last_seen, bio = row
    seen = f", last {_day(last_seen)}" if last_seen else ""
    head = f"{_called(name, username, aliases, circle)} | {mentions} mentions{seen}"
    return number, Told(item_id("Person", number), head, bio)


def _artifact(row: Sequence[Any]) -> tuple[int, Told]:
    number, file_type, name, created_at, summary, *lists = row
    keywords, entities, hints = (", ".join(map(str, listed)) if isinstance(listed, list) else "" for listed in lists)
    lines = (
        summary or "(not analysed yet)",
        keywords and f"Keywords: {keywords}",
        entities and f"Entities: {entities}",
    )
    told = "\n".join(filter(None, (*lines, hints and f"Answers: {hints}")))
    return number, Told(item_id("Artifact", number), f'{plain(file_type)}: "{plain(name)}" | {_day(created_at)}', told)
