"""Ends active sessions: they are archived by the worker, and the answer names the topics that they became."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from memoryapp import work
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described
from memoryapp.api.curation import actor_of
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.sessions import CloseBody, ClosedAnswer
from memoryapp.importers.record import clean
from memoryapp.models import ChatUser, Message, Topic, Work
from memoryapp.operations.database import in_thread

LOOK_AGAIN = 0.3
# Seconds; a chat model may need longer for a long session, which the worker then archives nevertheless.
PATIENCE = 60.0

router = Router(tags=["messages"], auth=Token(Scope.INGEST))


@router.post("/sessions/close", operation_id="closeSessions", response=described(ClosedAnswer, 400, 404, 409, 422))
async def close(request: HttpRequest, body: CloseBody) -> ClosedAnswer:
    """Archive the active sessions of a chat user now, or only those with the label `session`.

    The answer is sent when their topics exist. If that takes longer than a minute, the answer is 503, and the sessions
    are archived nevertheless.
    """
    grant = grant_of(request)
    owner, numbers = await in_thread(_asked, grant, body)
    began, until = timezone.now(), monotonic() + PATIENCE
    while not await in_thread(_is_done, owner, numbers, began):
        if monotonic() > until:
            raise RequestRefused(503, "The sessions are not archived yet; that goes on.", wait=10)
        await asyncio.sleep(LOOK_AGAIN)
    return await answered(ClosedAnswer, _topics, owner, numbers)


def _asked(grant: Grant, body: CloseBody) -> tuple[ChatUser, Sequence[int]]:
    """Asks the worker for the archiving; returns the messages that are to be archived."""
    owner = owner_or_404(grant, body.user)
    active = Message.objects.of(owner).active()
    label = None if body.session is None else clean(body.session)
    if label is not None:
        active = active.filter(session=label)
    numbers = list(active.order_by("pk").values_list("pk", flat=True))
    if numbers and work.is_paused(work.ARCHIVE, owner):
        raise RequestRefused(409, "Archiving is paused; resume it on the page Pipeline.")
    if numbers:
        work.ask_to_archive(owner, actor_of(grant), label)
    return owner, numbers


def _is_done(owner: ChatUser, numbers: Sequence[int], began: datetime) -> bool:
    """Whether none of the messages is active any more. Raises RequestRefused when nobody is going to archive them."""
    if not Message.objects.of(owner).active().filter(pk__in=numbers).exists():
        return True
    if work.AskedSessions.of(owner):
        return False
    failed = Work.objects.filter(owner=owner, kind=work.ARCHIVE, state=Work.State.FAILED, at__gte=began).first()
    if failed:
        raise RequestRefused(503, f"The sessions are not archived yet: {failed.fault}", wait=30)
    return False


def _topics(owner: ChatUser, numbers: Sequence[int]) -> dict[str, Any]:
    found = Topic.objects.of(owner).live().filter(message__in=numbers).distinct()
    return {"topics": list(found.order_by("started_at", "pk"))}
