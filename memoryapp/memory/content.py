"""Reads the memory of one owner for the engine: topics with their messages, and the user's background."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import psycopg
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.db.models import QuerySet
from django.dispatch import Signal
from django.utils.translation import gettext as _

from memoryapp import models
from memoryapp.engine.beside import table_beside
from memoryapp.engine.cells import enter
from memoryapp.engine.chat.media import MediaContent, MediaError
from memoryapp.engine.context import ContextItem
from memoryapp.engine.events import MediaItem
from memoryapp.engine.memory import ANYWHERE, Background, Decided, MessageContent, TopicContent, Where, item_id
from memoryapp.engine.notes import Note
from memoryapp.engine.prompts.prompt import CURRENT_MESSAGES
from memoryapp.engine.sight import COMMON, MOST_PROJECTS, sight
from memoryapp.engine.text.lines import CURRENT_TALK, one_line, person_label, plain, size_text, texts_of
from memoryapp.importers.values import clean
from memoryapp.models import ChatUser, Message, TopicMessage
from memoryapp.platform import database
from memoryapp.platform.caps import check_room
from memoryapp.platform.database import SqlStatement, array, round_trip

MOST_TOPICS = 200
NO_SESSIONS: Mapping[int, Sequence[int]] = MappingProxyType({})
MOST_MESSAGES = 1_000
RECENT_TOPICS = 3
# The most important facts; every query is sent with them.
MOST_FACTS = 50
IMPORTANT = 80
MOST_OF_CIRCLE = 20
# What people pinned, or want never recalled: as much as ``knowledge.recalling`` permits.
MOST_DECIDED = 2_000
# The circles of people that every query is sent with; other people are found by search.
INNER_CIRCLE = ("Family", "Work_Inner")
_BIO_CHARS = 200
SUMMARY_CHARS = 200

_SQL = table_beside(__file__)
BACKGROUND: str = _SQL["background"]
# The running conversation is not needed.
PROFILE = f"SELECT ({BACKGROUND})::text FROM (SELECT %(owner)s::bigint AS owner_id, '[]'::text AS messages) AS asked"
HOW_MUCH: Mapping[str, Any] = {
    "important": IMPORTANT,
    "most_facts": MOST_FACTS,
    "circles": list(INNER_CIRCLE),
    "most_of_circle": MOST_OF_CIRCLE,
    "bio_chars": _BIO_CHARS,
    "recent_topics": RECENT_TOPICS,
    "summary_chars": SUMMARY_CHARS,
    "last_messages": CURRENT_MESSAGES,
    "most_decided": MOST_DECIDED,
}

Connection = psycopg.AsyncConnection[Any]


def background(
    found: Mapping[str, Any], *, profile: str = "", messages: Sequence[MessageContent] | None = None
) -> Background:
    """Returns the background from the row of ``BACKGROUND``, which was queried with ``HOW_MUCH``. ``profile`` precedes
    the facts; ``messages`` is the running conversation, None the active session."""
    facts, circle, recent, last = (found[name] or () for name in ("facts", "circle", "recent", "last"))
    running = tuple(map(_message, reversed(last))) if messages is None else tuple(messages)
    return Background(
        profile="\n".join(filter(None, (profile.strip(), *(_fact(**row) for row in facts)))),
        inner_circle=tuple(_of_circle(**row) for row in circle),
        recent_topics=tuple(_recent(**row) for row in recent),
        messages=running[-CURRENT_MESSAGES:],
        decided=tuple(Decided(row["kind"], row["id"], row["recall"]) for row in found["decided"] or ()),
    )


def profile(owner: ChatUser) -> str:
    """Returns what is known about the owner, one line for each fact, as it is sent with every query; one SQL query."""
    with connection.cursor() as cursor:
        cursor.execute(PROFILE, {**HOW_MUCH, "owner": owner.pk})
        [found] = cursor.fetchone()
    return background(json.loads(found), profile=owner.profile).profile


def projects_of(owner: ChatUser) -> list[str]:
    """The labels of the memory's topics and active sessions that the code at hand sees, and its own."""
    topics = models.Topic.objects.of(owner).live().order_by().values_list("project")
    found = topics.union(Message.objects.of(owner).active().order_by().values_list("project"))
    return sorted(({project for (project,) in found[: MOST_PROJECTS + 1]} | sight().own) - {COMMON})


def _message(row: Mapping[str, Any]) -> MessageContent:
    return MessageContent(**{**row, "sent_at": datetime.fromisoformat(row["sent_at"])})


def _fact(category: str, relation: str, content: str) -> str:
    about = " / ".join(filter(None, (category, relation)))
    return f"- {about}: {' '.join(content.split())}"


def _of_circle(display_name: str, username: str, aliases: Any, circle: str, bio: str) -> str:
    return ": ".join(filter(None, (person_label(display_name, username, texts_of(aliases), circle), bio)))


def _recent(ended_at: str, summary: str, message_count: int, size_chars: int) -> str:
    day = _day(datetime.fromisoformat(ended_at))
    return f'{day}: "{summary}" ({message_count} msgs, {size_text(size_chars)})'


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def content(row: Message) -> MessageContent:
    """Returns the message of a row, as a value of the engine."""
    username = row.metadata.get("username") or ""
    return MessageContent(
        row.pk, row.role, row.author, row.sent_at, row.text, row.forwarded_from, str(username), row.session
    )


def permitted(where: Where) -> SqlStatement:
    """The condition that rows ``m`` of messages meet each restriction that is set, with its values."""
    values = {name: value for name in _SQL["conditions"] if (value := getattr(where, name))}
    conditions = " AND ".join(_SQL["conditions"][name] for name in values) or "true"
    return conditions, {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def in_topics(owner_id: int, topics: Iterable[int], where: Where) -> QuerySet[TopicMessage]:
    """The messages of these topics that ``where`` permits, each as a row with its message, oldest first."""
    numbers = list(topics)
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=numbers)
    if where:
        conditions, values = permitted(where)
        with connection.cursor() as cursor:
            cursor.execute(
                _SQL["permitted"].format(permitted=conditions), {"owner": owner_id, "ids": numbers, **values}
            )
            rows = rows.filter(message__in=[number for (number,) in cursor.fetchall()])
    return rows.select_related("message").order_by("message__sent_at", "message_id")


def in_sessions(owner_id: int, messages: Iterable[int], where: Where) -> list[Message]:
    """Those of these messages that ``where`` permits, oldest first."""
    numbers = list(messages)
    if where and numbers:
        conditions, values = permitted(where)
        with connection.cursor() as cursor:
            cursor.execute(
                _SQL["in_sessions"].format(permitted=conditions), {"owner": owner_id, "ids": numbers, **values}
            )
            numbers = [row[0] for row in cursor.fetchall()]
    return list(Message.objects.of(owner_id).filter(pk__in=numbers).in_order()) if numbers else []


def topics_sql(owner_id: int, ids: Sequence[int], where: Where = ANYWHERE) -> SqlStatement:
    """The statement that reads of each topic its number, summary, first time, count of messages and size, all of them
    those of the messages that ``where`` permits; topics without such a message are left out."""
    asked = {"owner": owner_id, "ids": array(ids)}
    if not where:
        return _SQL["topics"], asked
    conditions, values = permitted(where)
    rows = _SQL["permitted_parts"] if where.has_filters else _SQL["recalled_topics"]
    return rows.format(permitted=conditions), {**asked, "summary_chars": SUMMARY_CHARS, **values}


async def read_topics(
    connection: Connection,
    owner_id: int,
    ids: Sequence[int],
    where: Where = ANYWHERE,
    sessions: Mapping[int, Sequence[int]] = NO_SESSIONS,
) -> list[TopicContent]:
    """Returns the owner's topics among ``ids``, in that order, with those of their messages that ``where`` permits,
    oldest first. ``sessions`` are the messages of those ``ids`` that name active sessions."""
    wanted = list(dict.fromkeys(ids))[:MOST_TOPICS]
    topics_wanted = [number for number in wanted if number > 0]
    conditions, values = permitted(where)
    in_topics = (
        _SQL["messages"].format(permitted=conditions),
        {"owner": owner_id, "ids": array(topics_wanted), **values},
    )
    of_session = {message: number for number, listed in sessions.items() for message in listed}
    talk = {"owner": owner_id, "ids": array(of_session), **values}
    of_sessions = (_SQL["in_sessions"].format(permitted=conditions), talk) if of_session else None
    asked = topics_sql(owner_id, topics_wanted, where), in_topics, of_sessions
    rows, message_rows, session_rows = await round_trip(connection, *asked)
    messages: dict[int, list[MessageContent]] = defaultdict(list)
    for topic, *message in message_rows:
        messages[topic].append(MessageContent(*message))
    for row in session_rows:
        messages[of_session[row[0]]].append(MessageContent(*row))
    topics = {id: (summary, started_at, size) for id, summary, started_at, _count, size in rows}
    for number in sessions.keys() & messages.keys():
        spoken = messages[number]
        topics[number] = CURRENT_TALK, spoken[0].sent_at, sum(len(message.text) for message in spoken)
    return [TopicContent(id, *topics[id], tuple(messages[id])) for id in wanted if id in topics]


async def read_messages(connection: Connection, owner_id: int, ids: Sequence[int]) -> list[MessageContent]:
    """Returns the owner's messages among ``ids``, in that order."""
    wanted = list(dict.fromkeys(ids))[:MOST_MESSAGES]
    rows = await (await connection.execute(_SQL["one_by_one"], {"owner": owner_id, "ids": wanted})).fetchall()
    messages = {message.id: message for message in (MessageContent(*row) for row in rows)}
    return [messages[number] for number in wanted if number in messages]


async def read_passages(connection: Connection, owner_id: int, ids: Sequence[int]) -> dict[int, list[int]]:
    """Returns the numbers of the messages of each of the owner's passages among ``ids``."""
    rows = await (await connection.execute(_SQL["passages"], {"owner": owner_id, "ids": list(ids)})).fetchall()
    return dict(rows)


async def read_items(
    connection: Connection, owner_id: int, people: Sequence[int], artifacts: Sequence[int]
) -> tuple[list[ContextItem], list[ContextItem]]:
    """Returns the owner's people and files with these numbers, in that order, as the context contains them."""
    persons, files = await round_trip(
        connection,
        (_SQL["people"], {"owner": owner_id, "ids": list(people)}),
        (_SQL["artifacts"], {"owner": owner_id, "ids": list(artifacts)}),
    )
    return _in_order(people, map(_person, persons)), _in_order(artifacts, map(_artifact, files))


def _in_order(wanted: Iterable[int], items: Iterable[tuple[int, ContextItem]]) -> list[ContextItem]:
    known: Mapping[int, ContextItem] = dict(items)
    return [known[number] for number in wanted if number in known]


def _person(row: Sequence[Any]) -> tuple[int, ContextItem]:
    number, name, username, aliases, circle, mentions, last_seen, bio = row
    seen = f", last {_day(last_seen)}" if last_seen else ""
    head = f"{person_label(name, username, texts_of(aliases), circle)} | {mentions} mentions{seen}"
    return number, ContextItem(item_id("Person", number), head, bio)


def _artifact(row: Sequence[Any]) -> tuple[int, ContextItem]:
    number, file_type, name, created_at, summary, *lists = row
    keywords, entities, hints = (one_line(", ".join(texts_of(listed))) for listed in lists)
    lines = (
        one_line(summary) or "(not analysed yet)",
        keywords and f"Keywords: {keywords}",
        entities and f"Entities: {entities}",
    )
    text = "\n".join(filter(None, (*lines, hints and f"Answers: {hints}")))
    return number, ContextItem(
        item_id("Artifact", number), f'{plain(file_type)}: "{plain(name)}" | {_day(created_at)}', text
    )


# Finds or creates the chat user to whose memory something is added, unless that chat user is being erased.
#
# The erasure of a chat user marks the row first (``ChatUser.erasing_since``); whatever writes messages, files or
# facts checks the mark in its own transaction. ``erased`` lets caches drop what they keep of erased rows.

# Sent in the process that erases, after rows were deleted, with the ``number`` of their chat user.
erased = Signal()


class BeingErased(Exception):
    """Nothing can be added to a memory that is being erased; the text is a sentence for people."""


def being_erased(name: str) -> ChatUser | None:
    """Returns the chat user of that name whose erasure has not ended."""
    return ChatUser.with_erased.filter(name=name, erasing_since__isnull=False).first()


def check_kept(owner: ChatUser) -> None:
    """Raises BeingErased for a chat user that is marked, or gone."""
    if not ChatUser.objects.filter(pk=owner.pk).exists():
        raise BeingErased(_("This chat user is being erased; nothing can be added for them."))


def can_fill(topic_messages: int | None, session_messages: int | None) -> bool:
    """Whether a session can have as many messages as a topic needs; None stands for the program's setting."""
    least = topic_messages or settings.TOPIC_LEAST_MESSAGES
    return least <= (session_messages or settings.MAX_CHUNK_SIZE)


def found_or_made(name: str) -> ChatUser:
    """Returns the chat user of that name, created if missing. Raises BeingErased."""
    marked = being_erased(name)
    if marked:
        check_kept(marked)
    found: ChatUser = ChatUser.objects.get_or_create(name=name)[0]
    enter(found.cell)
    return found


# Files that were sent with queries: stored once under their hash, and given only to their owner's runs.
#
# In a run or an event a ``MediaItem`` only names the file. The hash of the bytes is checked when they are read, so a
# model never gets other bytes than those that were sent.


def store(owner: ChatUser, media: MediaContent) -> MediaItem:
    """Stores the bytes for this owner, once even if they are sent again; returns the item that names them.
    Raises QuotaReached."""
    item = replace(media.item, name=str(clean(media.item.name)))
    row = models.Media(
        owner=owner,
        sha256=item.sha256,
        type=item.type,
        mime_type=item.mime_type,
        name=item.name,
        size_bytes=item.size_bytes,
    )
    with transaction.atomic():
        # An erasure that deletes the last row for these bytes deletes the file too.
        database.acquire_until_commit(row.path, 0)
        if not models.Media.objects.filter(owner=owner, sha256=item.sha256).exists():
            check_room(owner, size=item.size_bytes)
        if not _is_stored(row):
            default_storage.save(row.path, ContentFile(media.content))
        # The file comes first: a row must never name bytes that are not there.
        models.Media.objects.bulk_create([row], ignore_conflicts=True)
    return item


def _is_stored(row: models.Media) -> bool:
    try:
        return default_storage.size(row.path) == row.size_bytes
    except FileNotFoundError:
        return False


def read(owner_id: int, item: MediaItem) -> MediaContent:
    """Returns the item with its bytes. Raises MediaError when this owner has none, or when they are not those that were
    sent."""
    named = {"hash": item.sha256[:12]}
    row = models.Media.objects.filter(owner=owner_id, sha256=item.sha256).first()
    if row is None:
        raise MediaError(Note("media_missing", named))
    try:
        with default_storage.open(row.path) as file:
            content = file.read()
    except OSError as error:
        raise MediaError(Note("media_unreadable", {**named, "error": error.strerror})) from error
    if hashlib.sha256(content).hexdigest() != item.sha256:
        raise MediaError(Note("media_changed", named))
    return MediaContent(item, content)
