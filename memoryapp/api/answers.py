"""What all answers share: the description for OpenAPI, from rows and values to shapes, and the paging of lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, JsonResponse
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder
from pydantic import BaseModel

from memoryapp.api.shapes.errors import ErrorAnswer
from memoryapp.api.shapes.fields import Answer
from memoryapp.api.shapes.topics import MessageInTopic
from memoryapp.models import Message
from memoryapp.operations.database import in_thread

ALWAYS = (401, 403, 429, 503)

Row = TypeVar("Row", bound=Model)
Shape = TypeVar("Shape", bound=Answer)
Given = ParamSpec("Given")


def described(answer: type[BaseModel] | None, *refusals: int) -> dict[Any, Any]:
    """Returns the statuses of an endpoint for its description, including those that any endpoint may answer."""
    return {200: answer, frozenset({*ALWAYS, *refusals}): ErrorAnswer}


class WholeTimes(NinjaJSONEncoder):
    """Writes times with microseconds and zone."""

    def default(self, o: Any) -> Any:
        return o.isoformat() if isinstance(o, datetime) else super().default(o)


class UnescapedJSON(JSONRenderer):
    """JSON with unescaped Cyrillic."""

    encoder_class = WholeTimes
    json_dumps_params: Mapping[str, Any] = {"ensure_ascii": False}


async def answered(shape: type[Shape], work: Callable[Given, Any], *args: Given.args, **named: Given.kwargs) -> Shape:
    """Returns what the work gives, in the shape of an answer. Both are made in a thread of the database: attributes of
    rows may have to be read."""
    return await in_thread(lambda: shape.model_validate(work(*args, **named)))


def document(request: HttpRequest, values: dict[str, Any]) -> JsonResponse:
    """Returns the values as JSON with unescaped Cyrillic and, if they have a ``url``, its absolute address."""
    if "url" in values:
        values = {**values, "url": request.build_absolute_uri(values["url"])}
    return JsonResponse(values, WholeTimes, json_dumps_params={"ensure_ascii": False})


def written(answer: Answer, request: HttpRequest | None = None) -> str:
    """Returns the answer as JSON, as an endpoint sends it."""
    values = answer.model_dump(by_alias=True, exclude_unset=True, context={"request": request})
    return json.dumps(values, cls=WholeTimes, ensure_ascii=False)


def page_of(rows: QuerySet[Row], limit: int) -> tuple[list[Row], Row | None]:
    """Returns the first ``limit`` rows, and the last of them if more follow: the next page begins after it."""
    found = list(rows[: limit + 1])
    page = found[:limit]
    return page, page[-1] if len(found) > limit else None


def message_fields(row: Message) -> dict[str, Any]:
    """Returns the fields that every answer contains for a message."""
    return dict(MessageInTopic.model_validate(row))
