"""What all answers share: the description for OpenAPI, the writing of JSON, and the paging of lists."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, JsonResponse
from pydantic import BaseModel

from memoryapp.api.shapes.errors import ErrorAnswer, PendingAnswer
from memoryapp.models import Message

ALWAYS = (401, 403, 429, 503)

Row = TypeVar("Row", bound=Model)


def described(answer: type[BaseModel] | None, *refusals: int) -> dict[Any, Any]:
    """Returns the statuses of an endpoint for its description, including those that any endpoint may answer; 202 is
    no refusal but says that the work goes on."""
    pending = {202: PendingAnswer} if 202 in refusals else {}
    return {200: answer, **pending, frozenset({*ALWAYS, *refusals} - {202}): ErrorAnswer}


def document(request: HttpRequest, values: dict[str, Any]) -> JsonResponse:
    """Returns the values as JSON with unescaped Cyrillic and, if they have a ``url``, its absolute address."""
    if "url" in values:
        values = {**values, "url": request.build_absolute_uri(values["url"])}
    return JsonResponse(values, json_dumps_params={"ensure_ascii": False})


def page_of(rows: QuerySet[Row], limit: int) -> tuple[list[Row], Row | None]:
    """Returns the first ``limit`` rows, and the last of them if more follow: the next page begins after it."""
    found = list(rows[: limit + 1])
    page = found[:limit]
    return page, page[-1] if len(found) > limit else None


def message_fields(row: Message) -> dict[str, Any]:
    """Returns the fields that every answer contains for a message."""
    return {
        "id": row.external_id,
        "role": row.role,
        "author": row.author,
        "ts": row.sent_at.isoformat(),
        "text": row.text,
        "forwarded_from": row.forwarded_from,
    }
