"""Exports and erases memories, for a token with the scope ``curate`` that opens every memory; single messages also for
one with the scope ``forget``."""

from __future__ import annotations

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from memoryapp import erasure, transfer
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described
from memoryapp.api.curation import actor_of
from memoryapp.api.lists import router as users
from memoryapp.api.shapes.erasure import ErasedAnswer
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.fields import LARGEST_ID, KnownName
from memoryapp.api.streams import EXPORT, FilePieces
from memoryapp.content import chat_users
from memoryapp.engine.memory import parse_item_id
from memoryapp.erasure import Target
from memoryapp.importers.record import clean
from memoryapp.models import ChatUser, Erasure, Message, Person
from memoryapp.operations.database import in_thread

router = Router(tags=["users"], auth=Token(Scope.CURATE))


@router.delete(
    "/messages/{path:id}",
    operation_id="eraseMessage",
    auth=Token(Scope.FORGET, of_all=Scope.CURATE),
    response=described(ErasedAnswer, 404, 409, 422),
)
async def erase_message(request: HttpRequest, id: str, user: KnownName) -> ErasedAnswer:
    """Erase a message of `user` everywhere, for good. What was made from it is deleted, or made again without it.

    If the request is repeated, the answer is 404, because the message is gone. The token has the scope `forget`, or
    `curate` if it opens every memory.
    """
    return await answered(ErasedAnswer, _erased_message, grant_of(request), user, id)


@router.delete("/users/{path:name}/people/{id}", operation_id="erasePerson", response=described(ErasedAnswer, 404, 409))
async def erase_person(request: HttpRequest, name: str, id: str) -> ErasedAnswer:
    """Erase what is known about a person. Messages that mention them stay. The token must open every memory."""
    return await answered(ErasedAnswer, _erased_person, grant_of(request), name, id)


@router.get(
    "/users/{path:name}/export",
    operation_id="exportUser",
    response=described(None, 404, 409),
    openapi_extra={"responses": {200: EXPORT}},
)
async def export(request: HttpRequest, name: str) -> StreamingHttpResponse:
    """Export a whole memory as JSON Lines, which `import_chat` can restore. The token must open every memory."""
    owner = await in_thread(_opened, grant_of(request), name)
    file = await in_thread(transfer.file_of, owner)
    return FilePieces(file, "application/jsonl", "memory.jsonl")


# Declared last: a name may contain slashes, so this address also matches those above.
@router.delete("/users/{path:name}", operation_id="eraseUser", response=described(ErasedAnswer, 404))
async def erase(request: HttpRequest, name: str) -> ErasedAnswer:
    """Erase a chat user with all their data, for good. The answer is sent when nothing is left.

    The erasure continues if the connection is lost; a repeated request waits for its end. The token must open every
    memory.
    """
    return await answered(ErasedAnswer, _erased, grant_of(request), name)


# A path with both methods belongs to one router.
@users.delete(
    "/users",
    operation_id="eraseNamedUser",
    auth=Token(Scope.CURATE),
    tags=["users"],
    response=described(ErasedAnswer, 404, 422),
)
async def erase_user(request: HttpRequest, user: KnownName) -> ErasedAnswer:
    """Erase the chat user `user` for good, as above: in a path, the name `bob/people/3` would mean a person of `bob`.

    The token must open every memory.
    """
    return await answered(ErasedAnswer, _erased, grant_of(request), user)


def _opened(grant: Grant, name: str) -> ChatUser:
    """Returns the chat user. Raises RequestRefused unless the token opens every memory."""
    owner = owner_or_404(grant, name)
    if not grant.opens_all:
        raise RequestRefused(403, "Only a token that opens every memory may do that.")
    return owner


def _erased_message(grant: Grant, user: str, id: str) -> Erasure:
    owner = owner_or_404(grant, user)
    found = Message.objects.of(owner).filter(external_id=clean(id)).values_list("pk", flat=True).first()
    if found is None:
        raise RequestRefused(404, "There is no message of that id in this memory.")
    return _finished(grant, Target(owner.pk, (found,)))


def _erased_person(grant: Grant, name: str, id: str) -> Erasure:
    owner = _opened(grant, name)
    kind, number = parse_item_id(id, "Person") or ("", 0)
    if kind != "Person" or not Person.objects.filter(owner=owner, pk=min(number, LARGEST_ID)).exists():
        raise RequestRefused(404, "There is no person of that id in this memory.")
    return _finished(grant, Target(owner.pk, person=number, kind=Erasure.Kind.PERSON))


def _finished(grant: Grant, target: Target) -> Erasure:
    try:
        begun = erasure.begin(target, actor_of(grant))
    except erasure.Nothing as error:
        raise RequestRefused(404, str(error)) from error
    return _ended(erasure.finish(begun))


def _erased(grant: Grant, name: str) -> Erasure:
    begun = chat_users.being_erased(clean(name)) if grant.opens_all else None
    owner = begun or owner_or_404(grant, name)
    if not grant.opens_all:
        raise RequestRefused(403, "Only a token that opens every memory may erase a chat user.")
    return _ended(erasure.finish(erasure.begin_user(owner, actor_of(grant))))


def _ended(receipt: Erasure) -> Erasure:
    if receipt.ended_at is None:
        raise RequestRefused(503, f"Erasure {receipt.pk} goes on and ends by itself.", wait=30)
    return receipt
