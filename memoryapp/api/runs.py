"""Reads stored runs: with the scope ``read`` all runs of a memory, with ``recall`` only those of the token."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.urls import reverse
from ninja import Header, Query, Router

from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of
from memoryapp.api.answers import described, document
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.events import EventLine
from memoryapp.api.shapes.runs import RunAnswer
from memoryapp.api.streams import LINES, STREAM, event_lines, event_stream
from memoryapp.models import Run
from memoryapp.operations.database import in_thread
from memoryapp.runs import recall_document

LARGEST_SEQ = 999_999_999

router = Router(tags=["runs"], auth=Token(Scope.READ, Scope.RECALL))


@router.get("/runs/{uuid:pk}", response=described(RunAnswer, 404))
async def run(request: HttpRequest, pk: UUID) -> JsonResponse:
    """Read a run. Once it is finished, the answer contains everything that it chose."""
    return document(request, await in_thread(_run_fields, grant_of(request), pk))


@router.get("/runs/{uuid:pk}/events", response=described(EventLine, 404), openapi_extra={"responses": {200: LINES}})
async def events(request: HttpRequest, pk: UUID) -> StreamingHttpResponse:
    """Read the events recorded so far, as JSON Lines."""
    await in_thread(_run, grant_of(request), pk)
    return event_lines(pk)


@router.get("/runs/{uuid:pk}/stream", response=described(None, 404, 422), openapi_extra={"responses": {200: STREAM}})
async def stream(
    request: HttpRequest,
    pk: UUID,
    last_event_id: Annotated[int, Header(alias="Last-Event-ID", ge=0, le=LARGEST_SEQ)] = 0,
    after: Annotated[int, Query(ge=0, le=LARGEST_SEQ)] = 0,
) -> StreamingHttpResponse:
    """Follow the events as server-sent events until the last one.

    The first one follows the number ``Last-Event-ID`` or ``after``, whichever is larger.
    """
    grant = grant_of(request)
    await in_thread(_run, grant, pk)
    return event_stream(pk, grant, after=max(last_event_id, after))


def _run_fields(grant: Grant, pk: UUID) -> dict[str, Any]:
    run = _run(grant, pk)
    return {
        "run": str(run.pk),
        "url": reverse("run", args=[run.pk]),
        "user": run.owner.name,
        "query": run.query,
        "strategy": run.strategy,
        "parameters": run.parameters,
        "state": run.state,
        "asked_at": run.created_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        **(recall_document.document(run) if run.is_finished else {}),
    }


def _run(grant: Grant, pk: UUID) -> Run:
    seen = Run.objects.filter(owner__in=grant.visible_owners())
    if not grant.may(Scope.READ):
        seen = seen.filter(token=grant.token)
    run = seen.select_related("owner").filter(pk=pk).first()
    if run is None:
        raise RequestRefused(404, "There is no such run.")
    return run
