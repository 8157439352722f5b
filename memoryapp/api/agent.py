"""Questions answered in words: by the agent as a stream of its progress, and by the plain path as one document.

A stream contains what a waiting person wants to see; everything else is in the run, at ``GET /v1/runs/<id>/events``.
If the agent is switched off, the plain path answers in the stream, and the first event says so.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import reverse
from ninja import Router

from memoryapp.api.access import Scope, Token, grant_of
from memoryapp.api.answers import answered, described, written
from memoryapp.api.asking import caller_span, start_run, wait_for_end
from memoryapp.api.shapes.answers import QuestionBody, StreamBegun, StreamProgress, WordsAnswer
from memoryapp.api.shapes.fields import Answer
from memoryapp.api.shapes.recall import RecallBody
from memoryapp.api.streams import RUN_HEADER, described_event, named, unbroken, unbuffered
from memoryapp.engine.events import CandidatesFound, QueryEnriched, RunFinished, TurnStarted
from memoryapp.engine.kinds.react import StepStarted, ToolUsed
from memoryapp.engine.strategies import PLAIN, PLANNING, REACT
from memoryapp.models import Run
from memoryapp.operations.database import in_thread
from memoryapp.runs import answer_document
from memoryapp.runs.followers import EventText, follow
from memoryapp.runs.parameters import own, validate
from memoryapp.runs.runner import runner

OFF = "The agent is switched off (ENABLE_AGENT), so the plain path answers."
PROGRESS: dict[str, Any] = {
    "headers": RUN_HEADER,
    "description": (
        "Server-sent events: `run` first, `progress` for each step, `answer` last. Comments in between show that the"
        " stream is alive."
    ),
    "content": {
        "text/event-stream": {
            "schema": {
                "oneOf": [
                    described_event("run", StreamBegun.model_json_schema()),
                    described_event("progress", StreamProgress.model_json_schema()),
                    described_event("answer", named(WordsAnswer)),
                ]
            },
            "example": 'event: progress\nid: 4\ndata: {"step": "retrieve", "tool": "search"}\n\n',
        }
    },
}
# The step that is shown for an event whose content is not shown.
_STEPS = {QueryEnriched.kind: "search", CandidatesFound.kind: "compose", TurnStarted.kind: "model"}

router = Router(tags=["answers"], auth=Token(Scope.RECALL))


@router.post("/qa", operation_id="answerQuestion", response=described(WordsAnswer, 400, 404, 409, 413, 422))
async def qa(request: HttpRequest, body: QuestionBody) -> WordsAnswer:
    """Ask a memory a question, and get an answer that quotes its messages: one search, one question to a model."""
    asked = body.recall(PLAIN.name)
    run = await in_thread(start_run, grant_of(request), asked, caller_span(request.headers))
    await wait_for_end(run)
    return await answered(WordsAnswer, answer_document.document, run)


@router.post(
    "/agent/stream",
    operation_id="streamAnswer",
    response=described(None, 400, 404, 409, 413, 422),
    openapi_extra={"responses": {200: PROGRESS}},
)
async def agent_stream(request: HttpRequest, body: QuestionBody) -> StreamingHttpResponse:
    """Ask the agent a question, follow its progress and get its answer.

    The header ``Content-Location`` names the run. If the connection breaks, read the run at that address: it continues
    without the client.
    """
    grant = grant_of(request)
    run = await in_thread(start_run, grant, _in_force(body), caller_span(request.headers))
    runner.launch(run.pk)
    response = unbuffered(_stream(request, run, grant.token.pk), "text/event-stream")
    response["Content-Location"] = f"/v1/runs/{run.pk}"
    return response


def _in_force(body: QuestionBody) -> RecallBody:
    """The question to *react*; to *plain* while that is switched off, without the parameters that *plain* lacks.

    Raises ParameterError for one that *react* lacks.
    """
    asked = body.recall(REACT.name)
    if settings.ENABLE_AGENT:
        return asked
    validate(asked.parameters, REACT)
    return asked.model_copy(update={"strategy": PLAIN.name, "parameters": own(asked.parameters, PLAIN)})


async def _stream(request: HttpRequest, run: Run, token: int) -> AsyncIterator[str]:
    yield _event_text(request, "run", 0, _begun(run))
    async with aclosing(follow(runner, run.pk, token=token)) as followed:
        async for text in followed:
            if text is None:
                yield ": nothing new yet\n\n"
            elif text.kind == RunFinished.kind:
                await in_thread(run.refresh_from_db)
                yield _event_text(
                    request, "answer", text.seq, await answered(WordsAnswer, answer_document.document, run)
                )
            elif progress := _progress(text):
                yield _event_text(request, "progress", text.seq, progress)


def _begun(run: Run) -> StreamBegun:
    is_agent, url = run.strategy in PLANNING, reverse("run", args=[run.pk])
    return StreamBegun(run=run.pk, url=url, strategy=run.strategy, agent=is_agent, note="" if is_agent else OFF)


def _progress(text: EventText) -> StreamProgress | None:
    """Returns the progress that a waiting person sees for this event; None if there is none."""
    if text.kind == StepStarted.kind:
        return StreamProgress(step=json.loads(text.stored)["phase"])
    if text.kind == ToolUsed.kind:
        return StreamProgress(step="tool", tool=json.loads(text.stored)["tool"])
    return StreamProgress(step=_STEPS[text.kind]) if text.kind in _STEPS else None


def _event_text(request: HttpRequest, name: str, number: int, answer: Answer) -> str:
    return f"event: {name}\nid: {number}\ndata: {unbroken(written(answer, request))}\n\n"
