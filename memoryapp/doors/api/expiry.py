"""What expires, for programs: what a rule would take, the rules and batches of a memory, and the way back."""

from typing import Annotated, Any

from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpRequest
from ninja import Query, Router

from memoryapp.doors.api.access import Scope, Token, answered, described, grant_of, owner_or_404, row_or_404
from memoryapp.doors.api.curation import actor_of, refusals_of_curation
from memoryapp.doors.api.shapes.expiry import ExpiryAnswer, ExpiryBatchAnswer, KeepBody, RehearsalAnswer, RehearseBody
from memoryapp.doors.api.shapes.fields import RequestRefused
from memoryapp.erasure import expiry
from memoryapp.importers.record import LONGEST
from memoryapp.models import ExpiryBatch, ExpiryRule
from memoryapp.models.audit import Deed
from memoryapp.platform.accounts.tokens import Grant

MOST_LISTED = 100

router = Router(tags=["expiry"], auth=Token(Scope.READ, deed=Deed.READ, whole=True))


@router.get("/expiry", operation_id="listExpiry", response=described(ExpiryAnswer, 404, 409, 422))
async def listed(request: HttpRequest, user: Annotated[str, Query(max_length=LONGEST["user"])]) -> ExpiryAnswer:
    """List the rules that concern a memory, and what they set aside lately."""
    return await answered(ExpiryAnswer, _listed, grant_of(request), user)


@router.post(
    "/expiry/rehearsal", operation_id="rehearseExpiry", response=described(RehearsalAnswer, 400, 404, 409, 413, 422)
)
async def rehearsal(request: HttpRequest, body: RehearseBody) -> RehearsalAnswer:
    """Read what a rule would set aside now; nothing is changed."""
    return await answered(RehearsalAnswer, _rehearsed, grant_of(request), body)


@router.post(
    "/expiry/batches/{int:id}/keep",
    operation_id="keepExpiring",
    auth=Token(Scope.CURATE, Scope.FORGET, whole=True),
    response=described(ExpiryBatchAnswer, 400, 404, 409, 413, 422),
)
async def keep(request: HttpRequest, id: int, body: KeepBody) -> ExpiryBatchAnswer:
    """Bring back rows that are set aside, and keep them from the rule for good."""
    return await answered(ExpiryBatchAnswer, _kept, grant_of(request), id, body)


def _listed(grant: Grant, user: str) -> dict[str, Any]:
    owner = owner_or_404(grant, user)
    rules = ExpiryRule.objects.filter(Q(owner=owner) | Q(owner=None))
    batches = ExpiryBatch.objects.filter(owner=owner)
    return {"rules": list(rules[:MOST_LISTED]), "batches": list(batches[:MOST_LISTED])}


def _rehearsed(grant: Grant, body: RehearseBody) -> expiry.ExpiryRehearsal:
    rule = ExpiryRule(owner=owner_or_404(grant, body.user), **body.model_dump(exclude={"user"}))
    try:
        rule.clean()
    except ValidationError as error:
        raise RequestRefused(422, " ".join(error.messages)) from None
    return expiry.rehearse(rule)


def _kept(grant: Grant, number: int, body: KeepBody) -> ExpiryBatch:
    batch = row_or_404(grant, ExpiryBatch.objects.select_related("rule"), number, "batch of that number")
    with refusals_of_curation(409):
        expiry.keep(batch, body.numbers or None, actor=actor_of(grant))
    return batch
