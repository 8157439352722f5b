"""Stored runs, read and forked: with the scope ``read`` all runs of a memory, with ``recall`` those of the token."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.module_loading import import_string
from ninja import Header, Query, Router

from memoryapp.doors.api.access import (
    Scope,
    Token,
    answered,
    described,
    grant_of,
    handed_over,
    owner_or_404,
    page_of,
    row_or_404,
)
from memoryapp.doors.api.recall import LINES, STREAM, event_lines, event_stream, start_fork, unbuffered, wait_for_end
from memoryapp.doors.api.serving import serves
from memoryapp.doors.api.shapes.fields import RequestRefused
from memoryapp.doors.api.shapes.runs import (
    AnswerBody,
    CapsuleAnswer,
    ComparisonAnswer,
    DeliveredAnswer,
    EventLine,
    ForkBody,
    ListedRun,
    RecallAnswer,
    RunAnswer,
    RunsAnswer,
    WhyNotAnswer,
)
from memoryapp.importers.record import LONGEST
from memoryapp.importers.values import quote
from memoryapp.insight import capsules, compare, delivery
from memoryapp.insight.compare.comparison import MOST_RUNS
from memoryapp.insight.explain import Explanation, why_not
from memoryapp.models import Run
from memoryapp.models.audit import Deed
from memoryapp.models.run import RunQuerySet
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.audit import entries
from memoryapp.platform.database import in_thread
from memoryapp.runs.recall_document import EndedRun

LARGEST_SEQ = 999_999_999
MOST_LISTED = 200
FOR_ASKERS = Token(Scope.RECALL)

router = Router(tags=["runs"], auth=Token(Scope.READ, Scope.RECALL))


@serves(router.get, "/runs", "listRuns", RunsAnswer, 404, 409, 422)
def runs(
    grant: Grant,
    user: Annotated[str, Query(max_length=LONGEST["user"])] = "",
    outcome: Annotated[str, Query(max_length=32)] = "",
    before: Annotated[str, Query(max_length=40)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> dict[str, Any]:
    """List runs, the newest first: with the scope `read` all runs of the memories, with `recall` those of the token.
    `before` is a run, a day or a moment (ISO 8601; UTC without a zone), `outcome` is `chosen`, `none` or the code of a
    fallback, such as `timeout`."""
    seen = _seen(grant).made_here().filter(owner=owner_or_404(grant, user)) if user else _seen(grant).made_here()
    seen = seen.ended_as(outcome) if outcome else seen
    page, last = page_of(_earlier(grant, seen, before.strip()).order_by("-created_at", "-id"), limit)
    return {"runs": page, "next": last.pk if last else None}


@serves(router.get, "/runs/{uuid:pk}", "getRun", RunAnswer, 404)
def run(grant: Grant, pk: UUID) -> dict[str, Any]:
    """Read a run. Once it is finished, the answer contains everything that it chose."""
    run = _run(grant, pk)
    chosen = dict(handed_over(RecallAnswer, EndedRun(run), run)) if run.is_finished else {}
    return {**chosen, **dict(ListedRun.model_validate(run))}


@router.get(
    "/runs/{uuid:pk}/events",
    operation_id="listRunEvents",
    response=described(EventLine, 404),
    openapi_extra={"responses": {200: LINES}},
)
async def events(request: HttpRequest, pk: UUID) -> StreamingHttpResponse:
    """Read the events recorded so far, as JSON Lines."""
    await in_thread(_run, grant_of(request), pk)
    return unbuffered(event_lines(pk), "application/jsonl")


@router.get(
    "/runs/{uuid:pk}/capsule",
    operation_id="getRunCapsule",
    auth=Token(Scope.READ, deed=Deed.EXPORT),
    response=described(CapsuleAnswer, 404, 409, 422),
)
async def capsule(
    request: HttpRequest, pk: UUID, format: Literal["html", "json"] = "html", mask: bool = False
) -> HttpResponse | CapsuleAnswer:
    """Read a finished run as one file: HTML that replays without a server, or JSON that another installation opens.
    With ``mask`` names, numbers and addresses of mail and web are replaced by dots, and counted."""
    made = await in_thread(_capsule, grant_of(request), pk, mask)
    if format == "json":
        return await answered(CapsuleAnswer, capsules.document, made)
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
    """Follow the events as server-sent events until the last one. The first one follows the number ``Last-Event-ID`` or
    ``after``, whichever is larger."""
    grant = grant_of(request)
    await in_thread(_run, grant, pk)
    return event_stream(pk, grant, after=max(last_event_id, after))


@router.post(
    "/runs/{uuid:pk}/fork",
    operation_id="forkRun",
    auth=FOR_ASKERS,
    response=described(RunAnswer, 202, 400, 404, 409, 413, 422),
)
async def fork(request: HttpRequest, pk: UUID, body: ForkBody) -> RunAnswer:
    """Make a run that begins like this one and goes on with changes from a turn on, and wait for its end. What comes
    before the turn is replayed from this run without asking a model."""
    grant = grant_of(request)
    made = await in_thread(start_fork, grant, await in_thread(_run, grant, pk), body)
    await wait_for_end(made)
    return await answered(RunAnswer, run, grant, made.pk)


@serves(router.get, "/runs/{uuid:pk}/why_not", "whyNot", WhyNotAnswer, 404, 422, auth=Token(Scope.READ))
def why(grant: Grant, pk: UUID, topic: str = "", message: str = "", text: str = "") -> Explanation:
    """Ask why a finished run did not choose a topic, a message or what some words say; exactly one of them is given. No
    chat model is asked. What belongs to another memory is as unknown as what never was."""
    return why_not(_run(grant, pk), topic=topic, message=message, text=text)


@serves(router.post, "/runs/{uuid:pk}/answer", "deliverAnswer", DeliveredAnswer, 400, 404, 413, 422, auth=FOR_ASKERS)
def answer(grant: Grant, pk: UUID, body: AnswerBody) -> dict[str, Any]:
    """Send what the assistant said with what a finished run handed over: which of the chosen memories it used. No model
    is asked. A later answer takes the place of an earlier one."""
    run = _run(grant, pk)
    found = delivery.deliver(run, body.text)
    recall = delivery.recall_outcome(EndedRun(run).finished)
    return {"used": found.used, "unused": found.unused, "uses": found.uses, "recall": recall}


@serves(router.get, "/compare", "compareRuns", ComparisonAnswer, 404, 422, auth=Token(Scope.READ))
def compared(
    grant: Grant, run: Annotated[list[UUID], Query(min_length=2, max_length=MOST_RUNS)]
) -> compare.RunComparison:
    """Compare finished runs of one memory: the first difference of the first two, and each topic in every run."""
    _run(grant, run[0])
    seen = Run.objects.filter(owner__in=grant.visible_owners(), pk__in=run).select_related("owner").in_bulk()
    if any(pk not in seen for pk in run):
        raise RequestRefused(404, "There is no such run.")
    for each in seen.values():
        entries.saw(each.owner_id)
    return compare.compare([seen[pk] for pk in run])


def _capsule(grant: Grant, pk: UUID, mask: bool) -> capsules.Capsule:
    run = _run(grant, pk)
    made = capsules.capsule_of(run)
    return capsules.masked(made, run.owner) if mask else made


def _earlier(grant: Grant, runs: RunQuerySet, before: str) -> RunQuerySet:
    """The runs before a run, a day or a moment. Raises RequestRefused for what is none of them."""
    if not before:
        return runs
    try:
        if len(before) == len(str(UUID(int=0))):
            last = _run(grant, UUID(before))
            return runs.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
        moment = datetime.fromisoformat(before)
        return runs.filter(created_at__lt=moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise RequestRefused(
            422, f"before must be the id of a run or a day such as 2026-03-02, not {quote(before)}."
        ) from None


def _seen(grant: Grant) -> RunQuerySet:
    seen = Run.objects.filter(owner__in=grant.visible_owners()).select_related("owner")
    return seen if grant.may(Scope.READ) else seen.filter(token=grant.token)


def _run(grant: Grant, pk: UUID) -> Run:
    return row_or_404(grant, _seen(grant), pk, "such run")
