"""What answers have in common: their description for OpenAPI, how JSON is written, and how lists are paged."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, JsonResponse
from pydantic import BaseModel

from memoryapp.api.shapes.errors import ErrorAnswer
from memoryapp.models import Message

ALWAYS = (401, 403, 429, 503)

Row = TypeVar("Row", bound=Model)


def described(answer: type[BaseModel] | None, *refusals: int) -> dict[Any, Any]:
    """The statuses of an endpoint for its description; those that any endpoint may answer are added."""
    return {200: answer, frozenset({*ALWAYS, *refusals}): ErrorAnswer}


def document(request: HttpRequest, values: dict[str, Any]) -> JsonResponse:
    """The values as JSON, Cyrillic unescaped, with the absolute address in ``url``."""
    if "url" in values:
        values = {**values, "url": request.build_absolute_uri(values["url"])}
    return JsonResponse(values, json_dumps_params={"ensure_ascii": False})


def page_of(rows: QuerySet[Row], limit: int) -> tuple[list[Row], Row | None]:
    """The first ``limit`` rows, and the last of them if more follow: the next page begins after it."""
    found = list(rows[: limit + 1])
    page = found[:limit]
    return page, page[-1] if len(found) > limit else None


def message_fields(row: Message) -> dict[str, Any]:
    """What every answer with a message says about it."""
    return {
        "id": row.external_id,
        "role": row.role,
        "author": row.author,
        "ts": row.sent_at.isoformat(),
        "text": row.text,
        "forwarded_from": row.forwarded_from,
    }
