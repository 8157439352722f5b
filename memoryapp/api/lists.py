"""Lists what a memory contains, page by page, for programs that keep a copy or search for something.

``next`` is the ``after`` of the following page, or null on the last page. A page begins after the last row of the
previous one, so every page costs the same, and rows that are added or removed in between do not shift the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, JsonResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document, message_fields, page_of
from memoryapp.api.shapes import fields
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.api.shapes.lists import (
    ArtifactsAnswer,
    FactsAnswer,
    ImportsAnswer,
    MessagesAnswer,
    PeopleAnswer,
    UsersAnswer,
)
from memoryapp.engine.memory import item_id, parse_item_id, topic_id
from memoryapp.importers.record import LONGEST, clean
from memoryapp.models import Artifact, ChatUser, Fact, ImportBatch, Message, Person
from memoryapp.operations.database import in_thread

MOST_ROWS = 200

After = Annotated[str, Query(max_length=LONGEST["external_id"])]
AfterPerson = Annotated[str, Query(), fields.after("Person", "Person:7")]
AfterArtifact = Annotated[str, Query(), fields.after("Artifact", "Artifact:7")]
AfterNumber = Annotated[str, Query(), WithJsonSchema({"type": "string", "pattern": "^[0-9]{0,18}$", "default": ""})]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]
RowFields = Callable[[Any], dict[str, Any]]

# A token that may export and erase every memory may also list what they contain.
router = Router(tags=["lists"], auth=Token(Scope.READ, of_all=Scope.CURATE))


@dataclass(frozen=True, slots=True)
class Listing:
    """A list in the order of ids: its name in the answer, its rows, the kind in their ids, and their fields."""

    name: str
    rows: type[Model]
    kind: str
    row_fields: RowFields


@router.get("/users", operation_id="listUsers", response=described(UsersAnswer, 422))
async def users(request: HttpRequest, after: After = "", limit: Limit = 50) -> JsonResponse:
    """List the chat users whose memories the token opens, by name."""
    return document(request, await in_thread(_users, grant_of(request), after, limit))


@router.get(
    "/users/{path:name}/messages", operation_id="listMessages", response=described(MessagesAnswer, 400, 404, 409, 422)
)
async def messages(request: HttpRequest, name: str, after: After = "", limit: Limit = 50) -> JsonResponse:
    """List the messages by time, each with the topic that contains it. ``after`` is the id of a message."""
    return document(request, await in_thread(_messages, grant_of(request), name, after, limit))


@router.get(
    "/users/{path:name}/people", operation_id="listPeople", response=described(PeopleAnswer, 400, 404, 409, 422)
)
async def people(request: HttpRequest, name: str, after: AfterPerson = "", limit: Limit = 50) -> JsonResponse:
    """List the people in a memory."""
    return await _listed(request, PEOPLE, name, after, limit)


@router.get(
    "/users/{path:name}/artifacts",
    operation_id="listArtifacts",
    response=described(ArtifactsAnswer, 400, 404, 409, 422),
)
async def artifacts(request: HttpRequest, name: str, after: AfterArtifact = "", limit: Limit = 50) -> JsonResponse:
    """List the files in a memory."""
    return await _listed(request, ARTIFACTS, name, after, limit)


@router.get("/users/{path:name}/facts", operation_id="listFacts", response=described(FactsAnswer, 400, 404, 409, 422))
async def facts(request: HttpRequest, name: str, after: AfterNumber = "", limit: Limit = 50) -> JsonResponse:
    """List the facts in a memory about its chat user."""
    return await _listed(request, FACTS, name, after, limit)


@router.get(
    "/users/{path:name}/imports", operation_id="listImports", response=described(ImportsAnswer, 400, 404, 409, 422)
)
async def imports(request: HttpRequest, name: str, after: AfterNumber = "", limit: Limit = 50) -> JsonResponse:
    """List the imported files, earliest first."""
    return await _listed(request, IMPORTS, name, after, limit)


async def _listed(request: HttpRequest, listing: Listing, owner: str, after: str, limit: int) -> JsonResponse:
    number = _after(after, listing.kind)
    return document(request, await in_thread(_rows, grant_of(request), listing, owner, number, limit))


def _after(after: str, kind: str) -> int:
    """Returns the number in ``Person:7`` in any spelling, or in a bare ``7``."""
    named = (parse_item_id(after, kind) if after else (kind, 0)) or ("", 0)
    if named[0] != kind or named[1] > LARGEST_ID:
        example = item_id(kind, 7) if kind in ("Person", "Artifact") else "7"
        raise RequestRefused(400, f"after must be the id of the last one there was, such as {example}.")
    return named[1]


def _rows(grant: Grant, listing: Listing, owner: str, after: int, limit: int) -> dict[str, Any]:
    rows = listing.rows._default_manager.filter(owner=owner_or_404(grant, owner), pk__gt=after).order_by("pk")
    return _page(listing.name, rows, limit, listing.row_fields, "id")


def _page(name: str, rows: QuerySet[Any], limit: int, row_fields: RowFields, key: str) -> dict[str, Any]:
    """Returns a page of ``rows``; the field ``key`` of its last row is the ``after`` of the next page."""
    page, last = page_of(rows, limit)
    return {name: [row_fields(row) for row in page], "next": str(row_fields(last)[key]) if last else None}


def _users(grant: Grant, after: str, limit: int) -> dict[str, Any]:
    rows = (
        grant.visible_owners().filter(name__gt=clean(after)).order_by("name").only("name", "display_name", "created_at")
    )
    return _page("users", rows, limit, _user, "name")


def _messages(grant: Grant, name: str, after: str, limit: int) -> dict[str, Any]:
    rows = Message.objects.of(owner_or_404(grant, name)).filter(is_withdrawn=False)
    return _page("messages", rows.filter(_later(rows, after)).in_order(), limit, _message, "id")


def _later(rows: QuerySet[Message], after: str) -> Q:
    if not after:
        return Q()
    last = rows.filter(external_id=clean(after)).values_list("sent_at", "pk").first()
    if last is None:
        raise RequestRefused(404, "after must be the id of a message of this memory.")
    return Q(sent_at__gte=last[0]) & (Q(sent_at__gt=last[0]) | Q(pk__gt=last[1]))


def _user(row: ChatUser) -> dict[str, Any]:
    return {"name": row.name, "display_name": row.display_name, "created_at": row.created_at.isoformat()}


def _message(row: Message) -> dict[str, Any]:
    return {
        **message_fields(row),
        "session": row.session,
        "reply_to": row.reply_to,
        "topic": topic_id(row.topic_id) if row.topic_id else None,
    }


def _person(row: Person) -> dict[str, Any]:
    return {
        "id": item_id("Person", row.pk),
        "name": row.display_name,
        "aliases": [str(alias) for alias in row.aliases],
        "username": row.username,
        "circle": row.circle,
        "bio": row.bio,
        "mentions": row.mention_count,
        "first_seen": row.first_seen.isoformat() if row.first_seen else None,
        "last_seen": row.last_seen.isoformat() if row.last_seen else None,
    }


def _artifact(row: Artifact) -> dict[str, Any]:
    return {
        "id": item_id("Artifact", row.pk),
        "type": row.file_type,
        "name": row.name,
        "mime_type": row.mime_type,
        "sha256": row.sha256,
        "size_bytes": row.size_bytes,
        "state": row.state,
        "summary": row.summary,
        "keywords": [str(word) for word in row.keywords],
        "entities": [str(entity) for entity in row.entities],
        "answers": [str(hint) for hint in row.rag_hints],
        "created_at": row.created_at.isoformat(),
    }


def fact_fields(row: Fact) -> dict[str, Any]:
    return {
        "id": row.pk,
        "type": row.type,
        "category": row.category,
        "relation": row.relation,
        "content": row.content,
        "importance": row.importance,
        "topic": topic_id(row.topic_id) if row.topic_id else None,
        "created_at": row.created_at.isoformat(),
        "state": "past" if row.superseded_at else "current",
        "superseded_at": row.superseded_at.isoformat() if row.superseded_at else None,
    }


def _import(row: ImportBatch) -> dict[str, Any]:
    return {
        "id": row.pk,
        "source": row.source,
        "format": row.format,
        "started_at": row.started_at.isoformat(),
        "added": row.added,
        "skipped": row.skipped,
        "rejected": len(row.rejected),
        "left_out": row.left_out,
    }


PEOPLE = Listing("people", Person, "Person", _person)
ARTIFACTS = Listing("artifacts", Artifact, "Artifact", _artifact)
FACTS = Listing("facts", Fact, "Fact", fact_fields)
IMPORTS = Listing("imports", ImportBatch, "Import", _import)
