"""Erasing a chat user over HTTP: for a token that changes memories and opens them all."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse
from ninja import Router

from memoryapp import erasure
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import described, document
from memoryapp.api.curation import actor_of
from memoryapp.api.refusals import Refused
from memoryapp.api.shapes import ErasedAnswer
from memoryapp.database import in_thread
from memoryapp.importers.record import clean
from memoryapp.tokens import Grant

router = Router(tags=["users"], auth=Token(Scope.CURATE))


@router.delete("/users/{path:name}", response=described(ErasedAnswer, 404))
async def erase(request: HttpRequest, name: str) -> JsonResponse:
    """Erase a chat user with everything there is of them, which nobody can take back; answers when nothing is left.

    A call that was cut goes on by itself; sent again, it waits for the same end. The token must open every memory.
    """
    return document(request, await in_thread(_erased, grant_of(request), name))


def _erased(grant: Grant, name: str) -> dict[str, Any]:
    begun = erasure.being_erased(clean(name)) if grant.opens_all else None
    owner = begun or owner_or_404(grant, name)
    if not grant.opens_all:
        raise Refused(403, "Only a token that opens every memory may erase a chat user.")
    receipt = erasure.erase(owner, actor_of(grant))
    if receipt.ended_at is None:
        raise Refused(503, f"Erasure {receipt.pk} goes on; ask again later.", wait=30)
    return {
        "erasure": receipt.pk,
        "began_at": receipt.began_at.isoformat(),
        "ended_at": receipt.ended_at.isoformat(),
        "counts": receipt.counts,
    }
