"""Ends active sessions: they are archived by the worker, and the answer names the topics that they became."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from memoryapp import work
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of, owner_or_404
from memoryapp.api.answers import answered, described
from memoryapp.api.curation import actor_of
from memoryapp.api.shapes.errors import NotYet, RequestRefused
from memoryapp.api.shapes.sessions import CloseBody, ClosedAnswer, ClosedQuery
from memoryapp.importers.record import clean
from memoryapp.models import ChatUser, Message, Topic, Work
from memoryapp.operations.database import in_thread

LOOK_AGAIN = 0.3
# Seconds; a chat model may need longer for a long session, which the worker then archives nevertheless.
PATIENCE = 60.0

router = Router(tags=["messages"], auth=Token(Scope.INGEST))


@router.post("/sessions/close", operation_id="closeSessions", response=described(ClosedAnswer, 202, 400, 404, 409, 422))
async def close(request: HttpRequest, body: CloseBody) -> ClosedAnswer:
    """Archive the active sessions of a chat user now, or only those with the label `session`.

    The answer is sent when their topics exist. If that takes longer than a minute, the answer is 202: the sessions are
    archived nevertheless, and the address in `Location` says when they are.
    """
    grant = grant_of(request)
    owner, numbers = await in_thread(_asked, grant, body)
    began, until = timezone.now(), monotonic() + PATIENCE
    while not await in_thread(_is_done, owner, numbers):
        fault = await in_thread(_fault, owner, began)
        if fault or monotonic() > until:
            raise _not_yet(owner, body.session, numbers, fault)
        await asyncio.sleep(LOOK_AGAIN)
    return await answered(ClosedAnswer, _topics, owner, numbers)


@router.get("/sessions/closed", operation_id="getClosedSessions", response=described(ClosedAnswer, 202, 404, 409, 422))
async def closed(request: HttpRequest, query: Query[ClosedQuery]) -> ClosedAnswer:
    """Read what became of sessions whose archiving took longer than the request that closed them.

    The answer to that request has this address in its header `Location`.
    """
    return await answered(ClosedAnswer, _closed, grant_of(request), query)


def _closed(grant: Grant, query: ClosedQuery) -> dict[str, Any]:
    owner = owner_or_404(grant, query.user)
    rows = Message.objects.of(owner).filter(pk__range=(query.first, query.last))
    if query.session is not None:
        rows = rows.filter(session=clean(query.session))
    numbers = list(rows.order_by("pk").values_list("pk", flat=True))
    if not _is_done(owner, numbers):
        raise _not_yet(owner, query.session, numbers, _fault(owner))
    return _topics(owner, numbers)


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


def _is_done(owner: ChatUser, numbers: Sequence[int]) -> bool:
    return not Message.objects.of(owner).active().filter(pk__in=numbers).exists()


def _fault(owner: ChatUser, began: datetime | None = None) -> str:
    """Why the archiving failed that was asked for; the worker tries again later. Empty while it goes on."""
    if work.AskedSessions.of(owner):
        return ""
    failed = Work.objects.filter(owner=owner, kind=work.ARCHIVE, state=Work.State.FAILED).first()
    return failed.fault if failed and (began is None or failed.at >= began) else ""


def _not_yet(owner: ChatUser, label: str | None, numbers: Sequence[int], fault: str) -> NotYet:
    session = {} if label is None else {"session": clean(label)}
    asked = urlencode({"user": owner.name, **session, "first": numbers[0], "last": numbers[-1]})
    sentence = f"The sessions are not archived yet: {fault}" if fault else "The sessions are not archived yet."
    return NotYet(sentence, f"/v1/sessions/closed?{asked}", wait=30 if fault else 10)


def _topics(owner: ChatUser, numbers: Sequence[int]) -> dict[str, Any]:
    found = Topic.objects.of(owner).live().filter(message__in=numbers).distinct()
    return {"topics": list(found.order_by("started_at", "pk"))}
