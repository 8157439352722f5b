"""What expires, for programs: what a rule would take, the rules and batches of a memory, and the way back."""

from typing import Annotated, Any

from django.core.exceptions import ValidationError
from django.db.models import Q
from ninja import Query, Router

from memoryapp.doors.api.access import Scope, Token, owner_or_404, row_or_404
from memoryapp.doors.api.curation import actor_of, refusals_of_curation
from memoryapp.doors.api.serving import serves
from memoryapp.doors.api.shapes.expiry import ExpiryAnswer, ExpiryBatchAnswer, KeepBody, RehearsalAnswer, RehearseBody
from memoryapp.doors.api.shapes.fields import RequestRefused
from memoryapp.erasure import expiry
from memoryapp.importers.record import LONGEST
from memoryapp.models import ExpiryBatch, ExpiryRule
from memoryapp.models.audit import Deed
from memoryapp.platform.accounts.tokens import Grant

MOST_LISTED = 100
KEEPING = Token(Scope.CURATE, Scope.FORGET, whole=True)

router = Router(tags=["expiry"], auth=Token(Scope.READ, deed=Deed.READ, whole=True))


@serves(router.get, "/expiry", "listExpiry", ExpiryAnswer, 404, 409, 422)
def listed(grant: Grant, user: Annotated[str, Query(max_length=LONGEST["user"])]) -> dict[str, Any]:
    """List the rules that concern a memory, and what they set aside lately."""
    owner = owner_or_404(grant, user)
    rules = ExpiryRule.objects.filter(Q(owner=owner) | Q(owner=None))
    batches = ExpiryBatch.objects.filter(owner=owner)
    return {"rules": list(rules[:MOST_LISTED]), "batches": list(batches[:MOST_LISTED])}


@serves(router.post, "/expiry/rehearsal", "rehearseExpiry", RehearsalAnswer, 400, 404, 409, 413, 422)
def rehearsal(grant: Grant, body: RehearseBody) -> expiry.ExpiryRehearsal:
    """Read what a rule would set aside now; nothing is changed."""
    rule = ExpiryRule(owner=owner_or_404(grant, body.user), **body.model_dump(exclude={"user"}))
    try:
        rule.clean()
    except ValidationError as error:
        raise RequestRefused(422, " ".join(error.messages)) from None
    return expiry.rehearse(rule)


@serves(
    router.post,
    "/expiry/batches/{int:id}/keep",
    "keepExpiring",
    ExpiryBatchAnswer,
    400,
    404,
    409,
    413,
    422,
    auth=KEEPING,
)
def keep(grant: Grant, id: int, body: KeepBody) -> ExpiryBatch:
    """Bring back rows that are set aside, and keep them from the rule for good."""
    batch = row_or_404(grant, ExpiryBatch.objects.select_related("rule"), id, "batch of that number")
    with refusals_of_curation(409):
        expiry.keep(batch, body.numbers or None, actor=actor_of(grant))
    return batch
