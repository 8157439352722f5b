"""What a memory holds, list by list and page by page, for programs that keep a copy or look for something.

``next`` is what to send as ``after`` for the following page, null on the last one. Pages are found by the last row
of the one before, so they cost the same however far one has read, and a row that comes or goes in between shifts none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, JsonResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from memoryapp.api import fields
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document
from memoryapp.api.fields import LARGEST_ID
from memoryapp.api.list_shapes import (
    ArtifactsAnswer,
    FactsAnswer,
    ImportsAnswer,
    MessagesAnswer,
    PeopleAnswer,
    UsersAnswer,
)
from memoryapp.api.refusals import Refused
from memoryapp.database import in_thread
from memoryapp.engine.memory import item_id, parse_item_id, topic_id
from memoryapp.importers.record import LONGEST, clean
from memoryapp.models import Artifact, ChatUser, Fact, ImportBatch, Message, Person
from memoryapp.tokens import Grant

MOST_ROWS = 200

After = Annotated[str, Query(max_length=LONGEST["external_id"])]
AfterPerson = Annotated[str, Query(), fields.after("Person", "Person:7")]
AfterArtifact = Annotated[str, Query(), fields.after("Artifact", "Artifact:7")]
AfterNumber = Annotated[str, Query(), WithJsonSchema({"type": "string", "pattern": "^[0-9]{0,18}$", "default": ""})]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]
Told = Callable[[Any], dict[str, Any]]

router = Router(tags=["lists"], auth=Token(Scope.READ))


@router.get("/users", response=described(UsersAnswer, 422))
async def users(request: HttpRequest, after: After = "", limit: Limit = 50) -> JsonResponse:
    """The chat users whose memories the token opens, by name."""
    return document(request, await in_thread(_users, grant_of(request), after, limit))


@router.get("/users/{path:name}/messages", response=described(MessagesAnswer, 400, 404, 409, 422))
async def messages(request: HttpRequest, name: str, after: After = "", limit: Limit = 50) -> JsonResponse:
    """Messages in the order of their times, each with the topic that holds it; ``after`` is the id of one."""
    return document(request, await in_thread(_messages, grant_of(request), name, after, limit))


@router.get("/users/{path:name}/people", response=described(PeopleAnswer, 400, 404, 409, 422))
async def people(request: HttpRequest, name: str, after: AfterPerson = "", limit: Limit = 50) -> JsonResponse:
    """The people a memory knows."""
    asked = Person.objects, _number(after, "Person"), limit
    return document(request, await in_thread(_numbered, grant_of(request), name, "people", *asked, _person))


@router.get("/users/{path:name}/artifacts", response=described(ArtifactsAnswer, 400, 404, 409, 422))
async def artifacts(request: HttpRequest, name: str, after: AfterArtifact = "", limit: Limit = 50) -> JsonResponse:
    """The files a memory knows."""
    asked = Artifact.objects, _number(after, "Artifact"), limit
    return document(request, await in_thread(_numbered, grant_of(request), name, "artifacts", *asked, _artifact))


@router.get("/users/{path:name}/facts", response=described(FactsAnswer, 400, 404, 409, 422))
async def facts(request: HttpRequest, name: str, after: AfterNumber = "", limit: Limit = 50) -> JsonResponse:
    """What a memory knows of its chat user."""
    asked = Fact.objects, _number(after, "Fact"), limit
    return document(request, await in_thread(_numbered, grant_of(request), name, "facts", *asked, _fact))


@router.get("/users/{path:name}/imports", response=described(ImportsAnswer, 400, 404, 409, 422))
async def imports(request: HttpRequest, name: str, after: AfterNumber = "", limit: Limit = 50) -> JsonResponse:
    """The files that were imported, the earliest first."""
    asked = ImportBatch.objects, _number(after, "Import"), limit
    return document(request, await in_thread(_numbered, grant_of(request), name, "imports", *asked, _import))


def _number(after: str, kind: str) -> int:
    """The number of ``Person:7``, however it is written; a bare one serves too."""
    named = (parse_item_id(after, kind) if after else (kind, 0)) or ("", 0)
    if named[0] != kind or named[1] > LARGEST_ID:
        example = item_id(kind, 7) if kind in ("Person", "Artifact") else "7"
        raise Refused(400, f"after must be the id of the last one there was, such as {example}.")
    return named[1]


def _page(name: str, rows: Sequence[Any], limit: int, told: Told, last: str) -> dict[str, Any]:
    """A page of ``rows``, of which there is one more than that if another follows; ``last`` names its place."""
    page = [told(row) for row in rows[:limit]]
    return {name: page, "next": str(page[-1][last]) if len(rows) > limit else None}


def _users(grant: Grant, after: str, limit: int) -> dict[str, Any]:
    found = grant.seen().filter(name__gt=clean(after)).order_by("name").defer("profile")
    return _page("users", list(found[: limit + 1]), limit, _user, "name")


def _messages(grant: Grant, name: str, after: str, limit: int) -> dict[str, Any]:
    rows = Message.objects.of(owner_or_404(grant, name)).filter(is_withdrawn=False)
    found = rows.filter(_later(rows, after)).in_order()
    return _page("messages", list(found[: limit + 1]), limit, _message, "id")


def _later(rows: QuerySet[Message], after: str) -> Q:
    if not after:
        return Q()
    last = rows.filter(external_id=clean(after)).values_list("sent_at", "pk").first()
    if last is None:
        raise Refused(404, "after must be the id of a message of this memory.")
    return Q(sent_at__gte=last[0]) & (Q(sent_at__gt=last[0]) | Q(pk__gt=last[1]))


def _numbered(grant: Grant, owner: str, name: str, rows: Any, after: int, limit: int, told: Told) -> dict[str, Any]:
    found: QuerySet[Model] = rows.filter(owner=owner_or_404(grant, owner), pk__gt=after).order_by("pk")
    return _page(name, list(found[: limit + 1]), limit, told, "id")


def _user(row: ChatUser) -> dict[str, Any]:
    return {"name": row.name, "display_name": row.display_name, "created_at": row.created_at.isoformat()}


def _message(row: Message) -> dict[str, Any]:
    return {
        "id": row.external_id,
        "role": row.role,
        "author": row.author,
        "ts": row.sent_at.isoformat(),
        "text": row.text,
        "session": row.session,
        "reply_to": row.reply_to,
        "forwarded_from": row.forwarded_from,
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


def _fact(row: Fact) -> dict[str, Any]:
    return {
        "id": row.pk,
        "type": row.type,
        "category": row.category,
        "relation": row.relation,
        "content": row.content,
        "importance": row.importance,
        "topic": topic_id(row.topic_id) if row.topic_id else None,
        "created_at": row.created_at.isoformat(),
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
    }
