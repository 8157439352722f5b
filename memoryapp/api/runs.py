"""Stored runs, read and forked: with the scope ``read`` all runs of a memory, with ``recall`` those of the token."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.module_loading import import_string
from ninja import Header, Query, Router

from memoryapp import capsules, compare, delivery
from memoryapp.accounts.tokens import Grant
from memoryapp.api.access import Scope, Token, grant_of
from memoryapp.api.answers import described, document
from memoryapp.api.asking import start_fork, wait_for_end
from memoryapp.api.shapes.errors import RequestRefused
from memoryapp.api.shapes.events import EventLine
from memoryapp.api.shapes.runs import (
    AnswerBody,
    CapsuleAnswer,
    ComparisonAnswer,
    DeliveredAnswer,
    ForkBody,
    RunAnswer,
    WhyNotAnswer,
)
from memoryapp.api.streams import LINES, STREAM, event_lines, event_stream
from memoryapp.compare.comparison import MOST_RUNS
from memoryapp.engine.outline import Outline
from memoryapp.explain import WhyNotError, document_of, why_not
from memoryapp.models import Run
from memoryapp.operations.database import in_thread
from memoryapp.runs import followers, recall_document

LARGEST_SEQ = 999_999_999

router = Router(tags=["runs"], auth=Token(Scope.READ, Scope.RECALL))


@router.get("/runs/{uuid:pk}", operation_id="getRun", response=described(RunAnswer, 404))
async def run(request: HttpRequest, pk: UUID) -> JsonResponse:
    """Read a run. Once it is finished, the answer contains everything that it chose."""
    return document(request, await in_thread(_run_fields, grant_of(request), pk))


@router.get(
    "/runs/{uuid:pk}/events",
    operation_id="listRunEvents",
    response=described(EventLine, 404),
    openapi_extra={"responses": {200: LINES}},
)
async def events(request: HttpRequest, pk: UUID) -> StreamingHttpResponse:
    """Read the events recorded so far, as JSON Lines."""
    await in_thread(_run, grant_of(request), pk)
    return event_lines(pk)


@router.get(
    "/runs/{uuid:pk}/capsule",
    operation_id="getRunCapsule",
    auth=Token(Scope.READ),
    response=described(CapsuleAnswer, 404, 409, 422),
)
async def capsule(
    request: HttpRequest, pk: UUID, format: Literal["html", "json"] = "html", mask: bool = False
) -> HttpResponse:
    """Read a finished run as one file: HTML that replays without a server, or JSON that another installation opens.

    With ``mask`` names, numbers and addresses of mail and web are replaced by dots, and counted.
    """
    made = await in_thread(_capsule, grant_of(request), pk, mask)
    if format == "json":
        return document(request, capsules.document(made))
    return HttpResponse(await in_thread(import_string(settings.CAPSULE_PAGE), made))


@router.get(
    "/runs/{uuid:pk}/stream",
    operation_id="streamRun",
    response=described(None, 404, 422),
    openapi_extra={"responses": {200: STREAM}},
)
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


@router.post(
    "/runs/{uuid:pk}/fork",
    operation_id="forkRun",
    auth=Token(Scope.RECALL),
    response=described(RunAnswer, 202, 400, 404, 409, 413, 422),
)
async def fork(request: HttpRequest, pk: UUID, body: ForkBody) -> JsonResponse:
    """Make a run that begins like this one and goes on with changes from a turn on, and wait for its end.

    What comes before the turn is replayed from this run without asking a model.
    """
    grant = grant_of(request)
    made = await in_thread(start_fork, grant, await in_thread(_run, grant, pk), body)
    await wait_for_end(made)
    return document(request, await in_thread(_run_fields, grant, made.pk))


@router.get(
    "/runs/{uuid:pk}/why_not",
    operation_id="whyNot",
    auth=Token(Scope.READ),
    response=described(WhyNotAnswer, 404, 422),
)
async def why(request: HttpRequest, pk: UUID, topic: str = "", message: str = "", text: str = "") -> JsonResponse:
    """Ask why a finished run did not choose a topic, a message or what some words say; exactly one of them is given.

    No chat model is asked. What belongs to another memory is as unknown as what never was.
    """
    return document(request, await in_thread(explained, grant_of(request), pk, topic, message, text))


@router.post(
    "/runs/{uuid:pk}/answer",
    operation_id="deliverAnswer",
    auth=Token(Scope.RECALL),
    response=described(DeliveredAnswer, 400, 404, 413, 422),
)
async def answer(request: HttpRequest, pk: UUID, body: AnswerBody) -> JsonResponse:
    """Send what the assistant said with what a finished run handed over: which of the chosen memories it used.

    No model is asked. A later answer takes the place of an earlier one.
    """
    return document(request, await in_thread(_delivered, grant_of(request), pk, body.text))


@router.get(
    "/compare", operation_id="compareRuns", auth=Token(Scope.READ), response=described(ComparisonAnswer, 404, 422)
)
async def compared(
    request: HttpRequest, run: Annotated[list[UUID], Query(min_length=2, max_length=MOST_RUNS)]
) -> JsonResponse:
    """Compare finished runs of one memory: the first difference of the first two, and each topic in every run."""
    return document(request, await in_thread(_compared, grant_of(request), run))


def _capsule(grant: Grant, pk: UUID, mask: bool) -> capsules.Capsule:
    run = _run(grant, pk)
    try:
        made = capsules.capsule_of(run)
    except capsules.CapsuleError as error:
        raise RequestRefused(409, str(error)) from None
    return capsules.masked(made, run.owner) if mask else made


def _compared(grant: Grant, runs: list[UUID]) -> dict[str, Any]:
    seen = Run.objects.filter(owner__in=grant.visible_owners(), pk__in=runs).select_related("owner").in_bulk()
    if any(pk not in seen for pk in runs):
        raise RequestRefused(404, "There is no such run.")
    try:
        return compare.document_of(compare.compare([seen[pk] for pk in runs]))
    except compare.CompareError as error:
        raise RequestRefused(422, str(error)) from None


def _delivered(grant: Grant, pk: UUID, text: str) -> dict[str, Any]:
    run = _run(grant, pk)
    try:
        found = delivery.deliver(run, text)
    except delivery.DeliveryError as error:
        raise RequestRefused(422, str(error)) from None
    ended = Outline.of([item.event for item in followers.stored(run.pk)]).finished
    return {
        "used": list(found.used),
        "unused": list(found.unused),
        "uses": [asdict(use) for use in found.uses],
        "recall": delivery.recall_outcome(ended) if ended else "failed",
    }


def explained(grant: Grant, pk: UUID, topic: str, message: str, text: str) -> dict[str, Any]:
    try:
        return document_of(why_not(_run(grant, pk), topic=topic, message=message, text=text))
    except WhyNotError as error:
        raise RequestRefused(422, str(error)) from None


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
        "parent": str(run.parent_id) if run.parent_id else None,
        "turn": run.turn,
        "changes": run.changes,
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
