"""Lists what a memory contains, page by page, for programs that keep a copy or search for something.

``next`` is the ``after`` of the following page, or null on the last page. A page begins after the last row of the
previous one, so every page costs the same, and rows that are added or removed in between do not shift the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, JsonResponse
from ninja import Query, Router
from pydantic import BaseModel, WithJsonSchema

from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document, page_of
from memoryapp.api.shapes import fields
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID
from memoryapp.api.shapes.lists import (
    ArtifactsAnswer,
    FactsAnswer,
    ImportsAnswer,
    ListedFact,
    MessagesAnswer,
    PeopleAnswer,
    UsersAnswer,
)
from memoryapp.engine.memory import item_id, parse_item_id
from memoryapp.importers.record import LONGEST, clean
from memoryapp.models import Artifact, Fact, ImportBatch, Message, Person
from memoryapp.operations.database import in_thread

MOST_ROWS = 200

After = Annotated[str, Query(max_length=LONGEST["external_id"])]
AfterPerson = Annotated[str, Query(), fields.after("Person", "Person:7")]
AfterArtifact = Annotated[str, Query(), fields.after("Artifact", "Artifact:7")]
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
    rows: type[Model]
    answer: type[BaseModel]
    words: str
    kind: str
    after: Any = AfterNumber

    def serve(self, router: Router) -> None:
        """Adds its endpoint."""

        async def listed(request: HttpRequest, name: str, after: str = "", limit: Limit = 50) -> JsonResponse:
            number = self._number(after)
            return document(request, await in_thread(self._page, grant_of(request), name, number, limit))

        listed.__name__, listed.__doc__, listed.__annotations__["after"] = self.name, self.words, self.after
        path, operation = f"/users/{{path:name}}/{self.name}", f"list{self.name.capitalize()}"
        router.get(path, operation_id=operation, response=described(self.answer, 400, 404, 409, 422))(listed)

    def _number(self, after: str) -> int:
        """Returns the number in ``Person:7`` in any spelling, or in a bare ``7``."""
        named = (parse_item_id(after, self.kind) if after else (self.kind, 0)) or ("", 0)
        if named[0] != self.kind or named[1] > LARGEST_ID:
            example = "7" if self.after is AfterNumber else item_id(self.kind, 7)
            raise RequestRefused(400, f"after must be the id of the last one there was, such as {example}.")
        return named[1]

    def _page(self, grant: Grant, owner: str, after: int, limit: int) -> dict[str, Any]:
        rows = self.rows._default_manager.filter(owner=owner_or_404(grant, owner), pk__gt=after).order_by("pk")
        return _page(self.name, self.answer, rows, limit)


LISTINGS = (
    Listing("people", Person, PeopleAnswer, "List the people in a memory.", "Person", AfterPerson),
    Listing("artifacts", Artifact, ArtifactsAnswer, "List the files in a memory.", "Artifact", AfterArtifact),
    Listing("facts", Fact, FactsAnswer, "List the facts in a memory about its chat user.", "Fact"),
    Listing("imports", ImportBatch, ImportsAnswer, "List the imported files, earliest first.", "Import"),
)


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


for _listing in LISTINGS:
    _listing.serve(router)


def _page(name: str, answer: type[BaseModel], rows: QuerySet[Any], limit: int) -> dict[str, Any]:
    """Returns a page of ``rows``; the first field of its last row is the ``after`` of the next page."""
    page, last = page_of(rows, limit)
    values = answer.model_validate({name: page, "next": None}).model_dump()
    return {**values, "next": str(next(iter(values[name][-1].values())))} if last else values


def _users(grant: Grant, after: str, limit: int) -> dict[str, Any]:
    rows = (
        grant.visible_owners().filter(name__gt=clean(after)).order_by("name").only("name", "display_name", "created_at")
    )
    return _page("users", UsersAnswer, rows, limit)


def _messages(grant: Grant, name: str, after: str, limit: int) -> dict[str, Any]:
    rows = Message.objects.of(owner_or_404(grant, name)).filter(is_withdrawn=False)
    return _page("messages", MessagesAnswer, rows.filter(_later(rows, after)).in_order(), limit)


def _later(rows: QuerySet[Message], after: str) -> Q:
    if not after:
        return Q()
    last = rows.filter(external_id=clean(after)).values_list("sent_at", "pk").first()
    if last is None:
        raise RequestRefused(404, "after must be the id of a message of this memory.")
    return Q(sent_at__gte=last[0]) & (Q(sent_at__gt=last[0]) | Q(pk__gt=last[1]))


def fact_fields(row: Fact) -> dict[str, Any]:
    return ListedFact.model_validate(row).model_dump()
