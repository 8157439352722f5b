"""Misses reported, looked at and put right by programs."""

from contextlib import suppress
from typing import Annotated, Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from ninja import Query, Router

from memoryapp.curation import CurationError
from memoryapp.doors.api import access
from memoryapp.doors.api.access import Scope, Token, answered, check_whole, described, grant_of, owner_or_404, page_of
from memoryapp.doors.api.curation import actor_of
from memoryapp.doors.api.recall import moment_in, wait_for_end
from memoryapp.doors.api.serving import serves
from memoryapp.doors.api.shapes.fields import LARGEST_ID, NotYet, RequestRefused
from memoryapp.doors.api.shapes.misses import DecideMissBody, MissAnswer, MissBody, MissDaysAnswer, MissesAnswer
from memoryapp.engine.memory import topic_id
from memoryapp.importers.record import LONGEST
from memoryapp.insight.misses import keeping, misses, remedies
from memoryapp.insight.misses.days import days_of
from memoryapp.insight.misses.misses import MissHolders
from memoryapp.models import ChatUser, Message, Miss, Run
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.database import in_thread
from memoryapp.runs.lifecycle import room_for

MOST_LISTED = 200

router = Router(tags=["misses"], auth=Token(Scope.READ, Scope.CURATE, whole=True))


@router.post(
    "/misses",
    operation_id="reportMiss",
    auth=Token(Scope.RECALL, Scope.CURATE, whole=True),
    response=described(MissAnswer, 400, 404, 409, 413, 422),
)
async def report(request: HttpRequest, body: MissBody) -> MissAnswer:
    """Report that an assistant forgot something: the answer says why, and what would put it right."""
    grant = grant_of(request)
    made = await in_thread(reported, grant, body)
    await ended(made.run)
    return await answered(MissAnswer, one, grant, made.pk)


@serves(router.get, "/misses", "listMisses", MissesAnswer, 404, 409, 422)
def listed(
    grant: Grant,
    user: Annotated[str, Query(max_length=LONGEST["user"])],
    state: Miss.State | None = None,
    before: Annotated[int, Query(ge=1, le=LARGEST_ID)] = LARGEST_ID,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> dict[str, Any]:
    """List the misses of a memory, the newest first."""
    rows = Miss.objects.filter(owner=owner_or_404(grant, user), pk__lt=before).select_related("owner").order_by("-pk")
    page, last = page_of(rows.filter(state=state) if state else rows, limit)
    return {"misses": [_fields(row) for row in page], "next": last.pk if last else None}


@serves(router.get, "/misses/days", "missDays", MissDaysAnswer, 404, 409, 422)
def days(grant: Grant, user: Annotated[str, Query(max_length=LONGEST["user"])]) -> dict[str, Any]:
    """Read what the last 30 days say of the misses of a memory, and what is kept right."""
    owner = owner_or_404(grant, user)
    found = days_of([owner], now=timezone.now(), zone=timezone.get_default_timezone())
    kept = keeping.standing(ChatUser.objects.filter(pk=owner.pk))
    return {
        "total": found.total,
        "open": found.open,
        "median_hours": found.median_hours,
        "days": [{"day": day, "misses": counts.total()} for day, counts in found.days],
        "by_stage": [{"name": name, "misses": count} for name, count in found.by_stage],
        "by_remedy": [{"name": name, "misses": count} for name, count in found.by_remedy],
        "costliest": [{"name": each.stage, "misses": each.misses, "hours": each.hours} for each in found.costliest],
        "kept": kept.kept,
        "asked": kept.total,
        "fallen": [each.miss.pk for each in kept.fallen if each.miss],
    }


@serves(router.get, "/misses/{int:id}", "getMiss", MissAnswer, 404)
def one(grant: Grant, id: int) -> dict[str, Any]:
    """Read a miss: why, and the remedies that fit, each tried."""
    row = _miss_or_404(grant, id)
    why, found_again = misses.explain(row), misses.settle(row)
    offers = remedies.offers(row, why, asks_model=grant.may(Scope.CURATE)) if why and not row.remedy else []
    holders = MissHolders(row) if why else None
    said = Message.objects.of(row.owner).filter(pk__in=row.evidence)
    return {
        **_fields(row),
        "sentence": why.sentence if why else "",
        "numbers": dict(why.numbers) if why else {},
        "by_words": [topic_id(topic.pk) for topic in holders.by_words] if holders else [],
        "by_meaning": [topic_id(topic.pk) for topic in holders.by_meaning or ()] if holders else [],
        "evidence": list(said.values_list("external_id", flat=True)),
        "remedies": [_remedy(offer) for offer in offers],
        "found_again": found_again,
    }


@router.post(
    "/misses/{int:id}",
    operation_id="decideMiss",
    auth=Token(Scope.CURATE, whole=True),
    response=described(MissAnswer, 400, 404, 409, 413, 422),
)
async def decide(request: HttpRequest, id: int, body: DecideMissBody) -> MissAnswer:
    """Put a miss right, keep it right, take the repair back, or say that it is no miss."""
    grant = grant_of(request)
    made = await in_thread(_decided, grant, id, body)
    await ended(made.again or made.run)
    return await answered(MissAnswer, one, grant, id)


async def ended(run: Run | None) -> None:
    """Executes the run and waits for its end, as long as a recall may."""
    if run is not None and not run.is_finished:
        # A slow run is no reason to refuse: the miss says what is known.
        with suppress(NotYet):
            await wait_for_end(run)


def reported(grant: Grant, body: MissBody) -> Miss:
    """Raises RequestRefused, BeingErased, MissError and TooManyRuns."""
    check_whole(grant)
    owner = owner_or_404(grant, body.user)
    run = Run.objects.of(owner).filter(pk=body.run).first() if body.run else None
    if body.run and run is None:
        raise RequestRefused(404, "There is no such run.")
    told: dict[str, Any] = {"expected": body.expected, "answer": body.answer, "moment": moment_in(body.at, "at")}
    with room_for(grant.token):
        return misses.report(owner, body.question, **told, run=run, by=actor_of(grant), token=grant.token)


def _decided(grant: Grant, number: int, body: DecideMissBody) -> Miss:
    row, actor, asked = _miss_or_404(grant, number), actor_of(grant), {"token": grant.token}
    try:
        if body.do == "repair":
            with room_for(grant.token):
                remedies.apply(row, body.remedy, {**body.values, "text": body.text}, actor=actor, **asked)
            if body.keep and row.evidence:
                keeping.keep(row, actor)
        else:
            misses.decide(row, body.do, body.text, actor=actor, keep=keeping.keep, **asked)
    except CurationError as error:
        raise RequestRefused(409, str(error)) from None
    return row


def _miss_or_404(grant: Grant, number: int) -> Miss:
    related = ("owner", "run__owner", "again", "golden", "topic_edit", "change")
    return access.row_or_404(grant, Miss.objects.select_related(*related), number, "such miss")


def _remedy(offer: remedies.Offer) -> dict[str, Any]:
    told = {name: getattr(offer, name) for name in ("remedy", "does", "result")}
    effect = offer.effect
    return {
        **told,
        "text": offer.text or "",
        "values": dict(offer.values),
        "better": effect.better if effect else None,
        "worse": effect.worse if effect else None,
    }


def _fields(row: Miss) -> dict[str, Any]:
    told = {name: getattr(row, name) for name in ("question", "expected", "state", "at", "repaired_at")}
    nullable = {"stage": row.stage, "topic": row.lost, "remedy": row.remedy}
    return {
        "id": row.pk,
        "user": row.owner.name,
        **told,
        **{name: value or None for name, value in nullable.items()},
        "run": row.run_id,
        "again": row.again_id,
        "url": reverse("miss", args=[row.owner_id, row.pk]),
    }
