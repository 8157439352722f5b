"""Lists what a memory contains, page by page, for programs that keep a copy or search for something. ``next`` is the
``after`` of the following page, or null on the last page. A page begins after the last row of the previous one, so
every page costs the same, and rows that are added or removed in between do not shift the others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from memoryapp import curation
from memoryapp.doors.api.access import Scope, Token, described, grant_of, owner_or_404, page_of, row_or_404
from memoryapp.doors.api.serving import serves
from memoryapp.doors.api.shapes import fields
from memoryapp.doors.api.shapes.curation import BlameAnswer, EditName, TopicAnswer, TopicsAnswer, TopicSummary
from memoryapp.doors.api.shapes.fields import LARGEST_ID, Answer, RequestRefused
from memoryapp.doors.api.shapes.lists import (
    ArtifactsAnswer,
    FactsAnswer,
    ImportsAnswer,
    MessagesAnswer,
    PeopleAnswer,
    UsersAnswer,
)
from memoryapp.engine.memory import ANYWHERE, Where, item_id, parse_item_id, parse_topic_id, topic_id
from memoryapp.engine.text.lines import CURRENT_TALK
from memoryapp.importers.record import LONGEST
from memoryapp.importers.values import clean
from memoryapp.memory.content import in_topics
from memoryapp.memory.sessions import archived_as, session_with, title
from memoryapp.models import Artifact, Deed, Fact, ImportBatch, Message, Person, Topic
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.audit import chain
from memoryapp.platform.database import in_thread

MOST_ROWS = 200

After = Annotated[str, Query(max_length=LONGEST["external_id"])]
AfterPerson = Annotated[str, Query(), fields.after("Person", "Person:7")]
AfterArtifact = Annotated[str, Query(), fields.after("Artifact", "Artifact:7")]
AfterTopic = Annotated[str, Query(), fields.after("Topic", "Topic:42")]
AfterNumber = Annotated[str, Query(), WithJsonSchema({"type": "string", "pattern": "^[0-9]{0,18}$", "default": ""})]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]

# A token that may export and erase every memory may also list what they contain.
router = Router(tags=["lists"], auth=Token(Scope.READ, of_all=Scope.CURATE))


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of a memory in the order of ids: its name in address and answer, its rows, the answer that describes
    them, what it says of itself, and the kind of its ids, such as ``Person`` of ``Person:7``. ``after`` is the
    parameter with an id; the ids of some lists are written without their kind."""

    name: str
    rows: Callable[[], QuerySet[Any]]
    answer: type[Answer]
    words: str
    kind: str
    after: Any = AfterNumber

    def serve(self, router: Router) -> None:
        """Adds its endpoint."""

        def listed(grant: Grant, name: str, after: str = "", limit: Limit = 50) -> Answer:
            number = self._number(after)
            rows = self.rows().filter(owner=owner_or_404(grant, name), pk__gt=number).order_by("pk")
            return _page(self.name, self.answer, rows, limit)

        listed.__name__, listed.__doc__, listed.__annotations__["after"] = self.name, self.words, self.after
        path, operation = f"/users/{{path:name}}/{self.name}", f"list{self.name.capitalize()}"
        serves(router.get, path, operation, self.answer, 400, 404, 409, 422)(listed)

    def _number(self, after: str) -> int:
        """Returns the number in ``Person:7`` in any spelling, or in a bare ``7``."""
        named = (parse_item_id(after, self.kind) if after else (self.kind, 0)) or ("", 0)
        if named[0] != self.kind or named[1] > LARGEST_ID:
            example = "7" if self.after is AfterNumber else item_id(self.kind, 7)
            raise RequestRefused(400, f"after must be the id of the last one there was, such as {example}.")
        return named[1]


LISTINGS = (
    Listing("people", Person.objects.all, PeopleAnswer, "List the people in a memory.", "Person", AfterPerson),
    Listing(
        "artifacts", Artifact.objects.all, ArtifactsAnswer, "List the files in a memory.", "Artifact", AfterArtifact
    ),
    Listing("facts", Fact.objects.all, FactsAnswer, "List the facts in a memory about its chat user.", "Fact"),
    Listing("imports", ImportBatch.objects.all, ImportsAnswer, "List the imported files, earliest first.", "Import"),
)
TOPICS = Listing(
    "topics",
    Topic.objects.live,
    TopicsAnswer,
    "List the live topics of a chat user by id; ``next`` is the ``after`` of the following page.",
    "Topic",
    AfterTopic,
)


@serves(router.get, "/users", "listUsers", UsersAnswer, 422)
def users(grant: Grant, after: After = "", limit: Limit = 50) -> Answer:
    """List the chat users whose memories the token opens, by name."""
    rows = grant.visible_owners().filter(name__gt=clean(after)).order_by("name")
    return _page("users", UsersAnswer, rows.only("name", "display_name", "created_at"), limit)


@serves(router.get, "/users/{path:name}/messages", "listMessages", MessagesAnswer, 400, 404, 409, 422)
def messages(grant: Grant, name: str, after: After = "", limit: Limit = 50) -> Answer:
    """List the messages by time, each with the topic that contains it. ``after`` is the id of a message."""
    rows = Message.objects.of(owner_or_404(grant, name)).filter(is_withdrawn=False)
    return _page("messages", MessagesAnswer, rows.filter(_later(rows, after)).in_order(), limit)


for _listing in LISTINGS:
    _listing.serve(router)


def _page(name: str, answer: type[Answer], rows: QuerySet[Any], limit: int) -> Answer:
    """Returns a page of ``rows``; the first field of its last row is the ``after`` of the next page."""
    page, last = page_of(rows, limit)
    shown = answer.model_validate({name: page, "next": None})
    return shown.model_copy(update={"next": str(next(iter(getattr(shown, name)[-1]))[1])}) if last else shown


def _later(rows: QuerySet[Message], after: str) -> Q:
    if not after:
        return Q()
    last = rows.filter(external_id=clean(after)).values_list("sent_at", "pk").first()
    if last is None:
        raise RequestRefused(404, "after must be the id of a message of this memory.")
    return Q(sent_at__gte=last[0]) & (Q(sent_at__gt=last[0]) | Q(pk__gt=last[1]))


# Reads topics: a memory's live topics page by page, and one topic with its messages.
#
# For a retired topic the answer contains the live topics that hold its messages now, so an id stays usable.

MOST_SUCCESSORS = 50
MOST_BLAMED = 10_000

topics_router = Router(tags=["topics"], auth=Token(Scope.READ))


TOPICS.serve(topics_router)


@serves(topics_router.get, "/topics/{id}", "getTopic", TopicAnswer, 404)
def topic(grant: Grant, id: str) -> dict[str, Any]:
    """Read a topic with its messages. The id may be written as ``42``, ``Topic:42`` or ``[Topic:42]``. ``Session:17``
    is an active session, which is in no topic yet; once it was archived, the answer contains the topics that its
    messages are in."""
    number = parse_topic_id(id)
    if number is not None and number < 0:
        return _session_shown(grant, -number)
    row = topic_or_404(grant, number)
    return {"id": row.pk, **_live([row] if row.is_live else _holding_now(row.owner_id, [row.pk]), row)}


@serves(topics_router.get, "/topics/{id}/blame", "blameTopic", BlameAnswer, 404)
def topic_blame(grant: Grant, id: str) -> dict[str, Any]:
    """Read which edit put each message into a topic, live or retired, and which one wrote each of its summaries."""
    row = topic_or_404(grant, parse_topic_id(id))
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


def _session_shown(grant: Grant, number: int) -> dict[str, Any]:
    """The active session that begins with the message of this number, or the topics that it was archived as."""
    first = row_or_404(grant, Message.objects.present(), number, "such session")
    id = topic_id(-number)
    if first.topic_id is None:
        return {"id": id, "retired": False, "topics": [_session(id, first)]}
    return {"id": id, **_live(_holding_now(first.owner_id, archived_as(first)), first), "retired": True}


def _session(id: str, first: Message) -> dict[str, Any]:
    messages = session_with(first)
    return {
        "id": id,
        "project": first.project,
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


def _blamed_edit(step: curation.TopicStep) -> dict[str, Any] | None:
    if step.edit is None:
        return None
    return {**dict(EditName.model_validate(step.edit)), "reason": step.edit.reason, "topic": step.topic.pk}


def topic_or_404(grant: Grant, number: int | None) -> Topic:
    return row_or_404(grant, Topic.objects.all(), number, "such topic")


def messages_of(owner_id: int, numbers: Iterable[int], where: Where = ANYWHERE) -> Mapping[int, Sequence[Message]]:
    """Returns the messages of these topics that ``where`` permits, oldest first, by the number of their topic."""
    messages: dict[int, list[Message]] = defaultdict(list)
    for row in in_topics(owner_id, numbers, where):
        messages[row.topic_id].append(row.message)
    return messages


# The audit log for programs that keep it elsewhere: sealed entries as JSON Lines.

MOST_ENTRIES = 10_000
LINES: dict[str, Any] = {
    "description": "One entry a line, in the order of their places, each with its seal and the one before it.",
    "content": {"application/jsonl": {"schema": {"type": "object"}}},
}

audit_router = Router(tags=["audit"], auth=Token(Scope.AUDIT, deed=Deed.EXPORT, whole=True))


@audit_router.get(
    "/audit", operation_id="listAudit", response=described(None, 422), openapi_extra={"responses": {200: LINES}}
)
async def audit(
    request: HttpRequest,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ENTRIES)] = 1_000,
) -> HttpResponse:
    """Read sealed entries of the audit log behind a place, as JSON Lines. A token that does not open every memory gets
    those of its memories."""
    return HttpResponse(await in_thread(_lines, grant_of(request), after, limit), content_type="application/jsonl")


def _lines(grant: Grant, after: int, limit: int) -> str:
    rows = chain.sealed().filter(place__gt=after)
    rows = rows if grant.opens_all else rows.filter(owner_number__in=grant.owners)
    return "".join(chain.lines(rows[:limit]))
