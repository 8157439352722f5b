"""Reads topics: a memory's live topics page by page, and one topic with its messages.

For a retired topic the answer contains the live topics that hold its messages now, so an id stays usable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router

from memoryapp import curation
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described, page_of
from memoryapp.api.shapes import fields
from memoryapp.api.shapes.edits import EditName
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.api.shapes.topics import BlameAnswer, TopicAnswer, TopicsAnswer, TopicSummary
from memoryapp.content.reading import in_topics
from memoryapp.engine.memory import ANYWHERE, Where, parse_topic_id, topic_id
from memoryapp.engine.text.lines import CURRENT_TALK
from memoryapp.models import Message, Topic
from memoryapp.sessions.active import archived_as, session_with, title

MOST_SUCCESSORS = 50
MOST_BLAMED = 10_000

AfterTopic = Annotated[str, Query(), fields.after("Topic", "Topic:42")]

router = Router(tags=["topics"], auth=Token(Scope.READ))


@router.get(
    "/users/{path:name}/topics", operation_id="listTopics", response=described(TopicsAnswer, 400, 404, 409, 422)
)
async def topics(
    request: HttpRequest, name: str, after: AfterTopic = "", limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> TopicsAnswer:
    """List the live topics of a chat user by id; ``next`` is the ``after`` of the following page."""
    return await answered(TopicsAnswer, _listed, grant_of(request), name, _after(after), limit)


@router.get("/topics/{id}", operation_id="getTopic", response=described(TopicAnswer, 404))
async def topic(request: HttpRequest, id: str) -> TopicAnswer:
    """Read a topic with its messages. The id may be written as ``42``, ``Topic:42`` or ``[Topic:42]``.

    ``Session:17`` is an active session, which is in no topic yet; once it was archived, the answer contains the topics
    that its messages are in.
    """
    return await answered(TopicAnswer, shown, grant_of(request), parse_topic_id(id))


@router.get("/topics/{id}/blame", operation_id="blameTopic", response=described(BlameAnswer, 404))
async def topic_blame(request: HttpRequest, id: str) -> BlameAnswer:
    """Read which edit put each message into a topic, live or retired, and which one wrote each of its summaries."""
    return await answered(BlameAnswer, _blamed, grant_of(request), parse_topic_id(id))


def _after(after: str) -> int:
    number = parse_topic_id(after) if after else 0
    if number is None or number > LARGEST_ID:
        raise RequestRefused(400, "after must be the id of a topic, such as Topic:42.")
    return number


def _listed(grant: Grant, name: str, after: int, limit: int) -> dict[str, Any]:
    live = Topic.objects.of(owner_or_404(grant, name)).live()
    page, last = page_of(live.filter(pk__gt=after).order_by("pk"), limit)
    return {"topics": page, "next": last.pk if last else None}


def shown(grant: Grant, number: int | None) -> dict[str, Any]:
    if number is not None and number < 0:
        return _session_shown(grant, -number)
    row = topic_or_404(grant, number)
    return {"id": row.pk, **_live([row] if row.is_live else _holding_now(row.owner_id, [row.pk]), row)}


def _session_shown(grant: Grant, number: int) -> dict[str, Any]:
    """The active session that begins with the message of this number, or the topics that it was archived as."""
    seen = Message.objects.present().filter(owner__in=grant.visible_owners()).select_related("owner")
    first = seen.filter(pk=number).first() if number <= LARGEST_ID else None
    if first is None:
        raise RequestRefused(404, "There is no such session.")
    id = topic_id(-number)
    if first.topic_id is None:
        return {"id": id, "retired": False, "topics": [_session(id, first)]}
    return {"id": id, **_live(_holding_now(first.owner_id, archived_as(first)), first), "retired": True}


def _session(id: str, first: Message) -> dict[str, Any]:
    messages = session_with(first)
    return {
        "id": id,
        "summary": f"{CURRENT_TALK}: {title(messages[0].text)}",
        "started_at": messages[0].sent_at,
        "ended_at": messages[-1].sent_at,
        "message_count": len(messages),
        "size_chars": sum(len(message.text) for message in messages),
        "user": first.owner.name,
        "messages": messages,
    }


def _live(holding: Sequence[Topic], row: Topic | Message) -> dict[str, Any]:
    """These topics with their messages; ``row`` is what they were asked for as."""
    messages = messages_of(row.owner_id, [found.pk for found in holding])
    heads = [dict(TopicSummary.model_validate(found)) for found in holding]
    topics = [
        {**head, "user": row.owner.name, "messages": messages[found.pk]}
        for head, found in zip(heads, holding, strict=True)
    ]
    return {"retired": isinstance(row, Topic) and not row.is_live, "topics": topics}


def _holding_now(owner_id: int, asked: Sequence[int]) -> list[Topic]:
    """Returns the live topics with the messages of these, in their order, the one with most of a topic's first."""
    found = curation.successors(owner_id, asked)
    numbers = list(dict.fromkeys(live for number in asked for live in found.get(number, ())))[:MOST_SUCCESSORS]
    rows = Topic.objects.of(owner_id).in_bulk(numbers)
    return [rows[number] for number in numbers if number in rows]


def _blamed(grant: Grant, number: int | None) -> dict[str, Any]:
    row = topic_or_404(grant, number)
    names = dict(
        Message.objects.of(row.owner_id)
        .filter(topicmessage__topic=row)
        .in_order()
        .values_list("pk", "external_id")[:MOST_BLAMED]
    )
    found = curation.blame(row)
    put_in = found.put_in(names)
    return {
        "id": row.pk,
        "messages": [{"id": name, "edit": _blamed_edit(put_in[pk])} for pk, name in names.items() if pk in put_in],
        "summaries": [{"summary": each.summary, "edit": _blamed_edit(each.step)} for each in found.versions],
    }


def _blamed_edit(step: curation.TopicStep) -> dict[str, Any] | None:
    if step.edit is None:
        return None
    return {**dict(EditName.model_validate(step.edit)), "reason": step.edit.reason, "topic": step.topic.pk}


def topic_or_404(grant: Grant, number: int | None) -> Topic:
    seen = Topic.objects.filter(owner__in=grant.visible_owners()).select_related("owner")
    row = seen.filter(pk=number).first() if number is not None and number <= LARGEST_ID else None
    if row is None:
        raise RequestRefused(404, "There is no such topic.")
    return row


def messages_of(owner_id: int, numbers: Iterable[int], where: Where = ANYWHERE) -> Mapping[int, Sequence[Message]]:
    """Returns the messages of these topics that ``where`` permits, oldest first, by the number of their topic."""
    messages: dict[int, list[Message]] = defaultdict(list)
    for row in in_topics(owner_id, numbers, where):
        messages[row.topic_id].append(row.message)
    return messages
