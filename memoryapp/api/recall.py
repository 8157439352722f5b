"""Questions: a run is made, executed by this process and answered, as one document or event by event.

A client that goes away takes nothing with it: the run ends by itself and can be asked for by its id.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from ninja import Router

from memoryapp.api.access import Scope, Token, grant_of
from memoryapp.api.answers import described, document
from memoryapp.api.asking import begun, ended
from memoryapp.api.shapes.recall import RecallAnswer, RecallBody
from memoryapp.api.streams import STREAM, event_stream
from memoryapp.models import Run
from memoryapp.operations.database import in_thread
from memoryapp.runs import recall_document
from memoryapp.runs.runner import runner

router = Router(tags=["recall"])


@router.post("/recall", auth=Token(Scope.RECALL), response=described(RecallAnswer, 400, 404, 409, 413, 422))
async def recall(request: HttpRequest, body: RecallBody) -> JsonResponse:
    """Ask a memory, and wait for what was chosen."""
    run = await in_thread(begun, grant_of(request), body)
    return document(request, await _ended(run))


async def _ended(run: Run) -> dict[str, Any]:
    """The run's document once it has ended."""
    await ended(run)
    return await in_thread(recall_document.document, run)


@router.post(
    "/recall/stream",
    auth=Token(Scope.RECALL),
    response=described(None, 400, 404, 409, 413, 422),
    openapi_extra={"responses": {200: STREAM}},
)
async def recall_stream(request: HttpRequest, body: RecallBody) -> StreamingHttpResponse:
    """Ask a memory, and get every event as it is recorded; the last one is ``run_finished``.

    The header ``Content-Location`` names the run. After a cut go on at ``GET /v1/runs/<id>/stream``.
    """
    grant = grant_of(request)
    run = await in_thread(begun, grant, body)
    runner.launch(run.pk)
    return event_stream(run.pk, grant, after=0)
