"""Questions: a run is made, executed by this process and answered, as one document or event by event.

A client that goes away takes nothing with it: the run ends by itself and can be asked for by its id.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from ninja import Router

from memoryapp import answer
from memoryapp.api.access import Scope, Token, grant_of
from memoryapp.api.answers import described, document
from memoryapp.api.asking import begun
from memoryapp.api.refusals import Refused
from memoryapp.api.shapes import RecallAnswer, RecallBody
from memoryapp.api.streams import STREAM, event_stream
from memoryapp.database import in_thread
from memoryapp.models import Run
from memoryapp.runner import runner

LOOK_AGAIN = 0.2
# Beyond the seconds the run itself may take: its search, and the sweep that closes what was abandoned.
PATIENCE = 60.0

router = Router(tags=["recall"])


@router.post("/recall", auth=Token(Scope.RECALL), response=described(RecallAnswer, 400, 404, 409, 413, 422))
async def recall(request: HttpRequest, body: RecallBody) -> JsonResponse:
    """Ask a memory, and wait for what was chosen."""
    run = await in_thread(begun, grant_of(request), body)
    await runner.finished(run.pk)
    return document(request, await _ended(run))


async def _ended(run: Run) -> dict[str, Any]:
    """The run's document; where another process executes it, once that has ended it."""
    try:
        async with asyncio.timeout(run.parameters["seconds"] + run.parameters["turn_seconds"] + PATIENCE):
            while True:
                if told := await in_thread(_document, run.pk):
                    return told
                await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        raise Refused(503, f"Run {run.pk} has not ended; ask for it at /v1/runs/{run.pk} later.", wait=5) from None


def _document(run_id: UUID) -> dict[str, Any] | None:
    run = Run.objects.get(pk=run_id)
    return answer.document(run) if run.is_finished else None


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
