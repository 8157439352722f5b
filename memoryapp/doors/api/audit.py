"""The audit log for programs that keep it elsewhere: sealed entries as JSON Lines."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from memoryapp.doors.api.access import Scope, Token, described, grant_of
from memoryapp.doors.api.shapes.fields import LARGEST_ID
from memoryapp.models.audit import Deed
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.audit import chain
from memoryapp.platform.database import in_thread

MOST_ENTRIES = 10_000
LINES: dict[str, Any] = {
    "description": "One entry a line, in the order of their places, each with its seal and the one before it.",
    "content": {"application/jsonl": {"schema": {"type": "object"}}},
}

router = Router(tags=["audit"], auth=Token(Scope.AUDIT, deed=Deed.EXPORT))


@router.get(
    "/audit", operation_id="listAudit", response=described(None, 422), openapi_extra={"responses": {200: LINES}}
)
async def audit(
    request: HttpRequest,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ENTRIES)] = 1_000,
) -> HttpResponse:
    """Read sealed entries of the audit log behind a place, as JSON Lines. A token that does not open every memory gets
    those of its memories."""
    return HttpResponse(await in_thread(_lines, grant_of(request), after, limit), content_type="application/jsonl")


def _lines(grant: Grant, after: int, limit: int) -> str:
    rows = chain.sealed().filter(place__gt=after)
    rows = rows if grant.opens_all else rows.filter(owner_number__in=grant.owners)
    return "".join(chain.lines(rows[:limit]))
