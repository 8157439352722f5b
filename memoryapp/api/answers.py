"""What answers have in common: how OpenAPI is told of them, and how JSON is written."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse
from pydantic import BaseModel

from memoryapp.api.shapes import ErrorAnswer

ALWAYS = (401, 403, 429, 503)


def described(answer: type[BaseModel] | None, *refusals: int) -> dict[Any, Any]:
    """The statuses of a door for its description; what any door may answer is added."""
    return {200: answer, frozenset({*ALWAYS, *refusals}): ErrorAnswer}


def document(request: HttpRequest, values: dict[str, Any]) -> JsonResponse:
    """The values as they are, Cyrillic unescaped, with a whole address in ``url``."""
    if "url" in values:
        values = {**values, "url": request.build_absolute_uri(values["url"])}
    return JsonResponse(values, json_dumps_params={"ensure_ascii": False})
