"""Questions to a memory: this process makes and executes a run, and answers with one document or event by event.

If a client disconnects, the run continues to its end and can be read by its id.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from memoryapp.api.access import Scope, Token, grant_of
from memoryapp.api.answers import answered, described, message_fields
from memoryapp.api.asking import caller_span, start_run, wait_for_end
from memoryapp.api.shapes.recall import RecallAnswer, RecallBody
from memoryapp.api.streams import STREAM, event_stream
from memoryapp.models import Run
from memoryapp.operations.database import in_thread
from memoryapp.runs import recall_document
from memoryapp.runs.runner import runner

router = Router(tags=["recall"])


@router.post(
    "/recall",
    operation_id="recall",
    auth=Token(Scope.RECALL),
    response=described(RecallAnswer, 400, 404, 409, 413, 422),
)
async def recall(request: HttpRequest, body: RecallBody) -> RecallAnswer:
    """Ask a memory a question, and wait for what is chosen."""
    run = await in_thread(start_run, grant_of(request), body, caller_span(request.headers))
    return await _at_end(run, body.include)


async def _at_end(run: Run, include: Sequence[str]) -> RecallAnswer:
    """Waits for the end of the run; returns its answer."""
    await wait_for_end(run)
    return await answered(RecallAnswer, recall_document.document, run, message_fields if include else None, include)


@router.post(
    "/recall/stream",
    operation_id="streamRecall",
    auth=Token(Scope.RECALL),
    response=described(None, 400, 404, 409, 413, 422),
    openapi_extra={"responses": {200: STREAM}},
)
async def recall_stream(request: HttpRequest, body: RecallBody) -> StreamingHttpResponse:
    """Ask a memory a question, and get every event as it is recorded; the last one is ``run_finished``.

    The header ``Content-Location`` names the run. If the connection breaks, continue at ``GET /v1/runs/<id>/stream``.
    """
    grant = grant_of(request)
    run = await in_thread(start_run, grant, body, caller_span(request.headers))
    runner.launch(run.pk)
    return event_stream(run.pk, grant, after=0)
