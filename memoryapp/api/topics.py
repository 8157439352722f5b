"""Reads topics: a memory's live topics page by page, and one topic with its messages.

For a retired topic the answer contains the live topics that hold its messages now, so an id stays usable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from django.http import HttpRequest, JsonResponse
from ninja import Query, Router

from memoryapp import curation
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document, message_fields, page_of
from memoryapp.api.shapes import fields
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.api.shapes.topics import TopicAnswer, TopicsAnswer
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.models import Message, Topic, TopicMessage
from memoryapp.operations.database import in_thread

MOST_SUCCESSORS = 50

AfterTopic = Annotated[str, Query(), fields.after("Topic", "Topic:42")]

router = Router(tags=["topics"], auth=Token(Scope.READ))


@router.get("/users/{path:name}/topics", response=described(TopicsAnswer, 400, 404, 409, 422))
async def topics(
    request: HttpRequest, name: str, after: AfterTopic = "", limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> JsonResponse:
    """List the live topics of a chat user by id; ``next`` is the ``after`` of the following page."""
    return document(request, await in_thread(_listed, grant_of(request), name, _after(after), limit))


@router.get("/topics/{id}", response=described(TopicAnswer, 404))
async def topic(request: HttpRequest, id: str) -> JsonResponse:
    """Read a topic with its messages. The id may be written as ``42``, ``Topic:42`` or ``[Topic:42]``."""
    return document(request, await in_thread(_shown, grant_of(request), parse_topic_id(id)))


def _after(after: str) -> int:
    number = parse_topic_id(after) if after else 0
    if number is None or number > LARGEST_ID:
        raise RequestRefused(400, "after must be the id of a topic, such as Topic:42.")
    return number


def _listed(grant: Grant, name: str, after: int, limit: int) -> dict[str, Any]:
    live = Topic.objects.of(owner_or_404(grant, name)).live()
    page, last = page_of(live.filter(pk__gt=after).order_by("pk"), limit)
    return {"topics": [topic_head(row) for row in page], "next": topic_id(last.pk) if last else None}


def _shown(grant: Grant, number: int | None) -> dict[str, Any]:
    row = topic_or_404(grant, number)
    holding = [row] if row.is_live else _holding_now(row)
    messages = _messages(row.owner_id, holding)
    topics = [
        {**topic_head(found), "user": row.owner.name, "messages": [message_fields(item) for item in messages[found.pk]]}
        for found in holding
    ]
    return {"id": topic_id(row.pk), "retired": not row.is_live, "topics": topics}


def _holding_now(retired: Topic) -> list[Topic]:
    """Returns the live topics with its messages, the one with most of them first."""
    numbers = curation.successors(retired.owner_id, [retired.pk]).get(retired.pk, ())[:MOST_SUCCESSORS]
    rows = Topic.objects.of(retired.owner_id).in_bulk(numbers)
    return [rows[number] for number in numbers if number in rows]


def topic_or_404(grant: Grant, number: int | None) -> Topic:
    seen = Topic.objects.filter(owner__in=grant.visible_owners()).select_related("owner")
    row = seen.filter(pk=number).first() if number is not None and number <= LARGEST_ID else None
    if row is None:
        raise RequestRefused(404, "There is no such topic.")
    return row


def _messages(owner_id: int, holding: Iterable[Topic]) -> Mapping[int, Sequence[Message]]:
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=[found.pk for found in holding])
    messages: dict[int, list[Message]] = defaultdict(list)
    for row in rows.select_related("message").order_by("message__sent_at", "message_id"):
        messages[row.topic_id].append(row.message)
    return messages


def topic_head(row: Topic) -> dict[str, Any]:
    return {
        "id": topic_id(row.pk),
        "summary": row.summary,
        "started_at": row.started_at.isoformat(),
        "ended_at": row.ended_at.isoformat(),
        "message_count": row.message_count,
        "size_chars": row.size_chars,
    }
