"""Questions to a memory: this process makes and executes a run, and answers with one document or event by event. If a
client disconnects, the run continues to its end and can be read by its id."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import IO, Any, cast
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import reverse
from ninja import Router

from memoryapp.doors.api.access import Scope, Token, described, grant_of, handed_over, owner_or_404, within, written
from memoryapp.doors.api.shapes.answers import QuestionBody, StreamBegun, StreamProgress, WordsAnswer, conversation
from memoryapp.doors.api.shapes.fields import Answer, NotYet, RequestRefused
from memoryapp.doors.api.shapes.runs import ForkBody, RecallAnswer, RecallBody
from memoryapp.engine.chat.media import MediaContent, MediaError, read_part
from memoryapp.engine.events import KINDS, RunFinished, from_payload
from memoryapp.engine.json_values import Change, rewritten, to_text
from memoryapp.engine.sight import looking
from memoryapp.engine.strategies import PLAIN, PLANNING, REACT
from memoryapp.importers.values import quote
from memoryapp.memory import guard, past
from memoryapp.models import Run
from memoryapp.platform.accounts.tokens import Grant
from memoryapp.platform.database import in_thread
from memoryapp.runs import forks, lifecycle
from memoryapp.runs.followers import EventText, follow, texts
from memoryapp.runs.parameters import all_declarations, own, strategy_for_new_run, validate
from memoryapp.runs.recall_document import EndedRun
from memoryapp.runs.runner import runner

# Makes a run from the body of a question or of a fork; everything is checked before anything is written.

# A later version may have more parts, which only it understands.
_TRACEPARENT = re.compile(r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


def caller_span(headers: Mapping[str, str]) -> str:
    """Returns the span that a request belongs to, by the header ``traceparent`` (https://www.w3.org/TR/trace-context/);
    empty without a valid one, which must not break a request."""
    named = headers.get("traceparent", "").strip().lower()
    found = _TRACEPARENT.fullmatch(named)
    return named if found and found["trace"].strip("0") and found["span"].strip("0") else ""


def start_run(grant: Grant, body: RecallBody, traceparent: str = "") -> Run:
    """Returns a new run of this token that waits to be executed. Raises RequestRefused, TooManyRuns, ParameterError."""
    owner = owner_or_404(grant, body.user)
    usual = {"when_unsure": grant.token.when_unsure} if grant.token.when_unsure else {}
    parameters = {**usual, **body.parameters}
    validate(_numbers(parameters), strategy_for_new_run(body.strategy))
    messages = None if body.messages is None else conversation(body.messages)
    sent, moment = [_part(index, part) for index, part in enumerate(body.media)], moment_in(body.as_of, "as_of")
    with looking(within(body.project)):
        return lifecycle.begin(
            grant.token,
            owner,
            body.query,
            strategy=body.strategy,
            parameters=parameters,
            messages=messages,
            media=sent,
            traceparent=traceparent,
            as_of=moment,
        )


def moment_in(text: str | None, field: str) -> datetime | None:
    """Raises RequestRefused for a text that names no moment."""
    try:
        return None if text is None else past.moment_of(text.strip())
    except (ValueError, OverflowError):
        raise RequestRefused(422, f"{field} must be a day such as 2026-03-02 or a moment, not {quote(text)}.") from None


def start_fork(grant: Grant, run: Run, body: ForkBody) -> Run:
    """Returns a fork of the run that waits to be executed. Raises RequestRefused, TooManyRuns and ParameterError."""
    changes = body.changes.model_dump(exclude_none=True)
    _numbers(changes.get("parameters", {}))
    with lifecycle.room_for(grant.token):
        return forks.fork(run, turn=body.turn, changes=changes, token=grant.token)


async def wait_for_end(run: Run) -> None:
    """Executes the run and waits until it has ended in any process. Raises NotYet when that takes too long."""
    await runner.complete(run.pk)
    try:
        await lifecycle.wait_for_end(run)
    except TimeoutError:
        raise NotYet(f"Run {run.pk} goes on.", f"/v1/runs/{run.pk}", wait=5, run=str(run.pk)) from None


def _numbers(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the parameters unchanged. Raises RequestRefused for a number as text, which only commands send."""
    numbers = {name for name, declaration in all_declarations().items() if declaration.is_number}
    for name in numbers & given.keys():
        if isinstance(given[name], bool) or not isinstance(given[name], int | float):
            raise RequestRefused(400, f"{name} must be a number, not {quote(given[name])}.")
    return given


def _part(index: int, part: Mapping[str, Any]) -> MediaContent:
    try:
        read = read_part(part)
    except MediaError as error:
        raise RequestRefused(422, f"media.{index}: {error}") from None
    if read.item.size_bytes > settings.MEDIA_MAX_BYTES:
        raise RequestRefused(
            413, f"media.{index}: {read.item.size_bytes:,} bytes; at most {settings.MEDIA_MAX_BYTES:,}."
        )
    if not _MIME.fullmatch(read.item.mime_type):
        raise RequestRefused(422, f"media.{index}: its type is not a MIME type such as image/png or audio/wav.")
    return read


# Events on the wire: server-sent events, and JSON Lines.

_PIECE = 262_144
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}


def named(shape: type[Any]) -> dict[str, Any]:
    """Returns a reference to a shape in the description, by its name."""
    return {"$ref": f"#/components/schemas/{shape.__name__}"}


def described_event(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the description of a server-sent event whose data has that schema."""
    return {
        "type": "object",
        "required": ["event", "id", "data"],
        "properties": {
            "event": {"const": kind},
            "id": {"type": "string", "pattern": "^[0-9]+$", "description": "the event's number, seq"},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": schema},
        },
    }


# Names the run of a stream, so that a client can read it after the connection broke.
RUN_HEADER = {
    "Content-Location": {"schema": {"type": "string", "examples": ["/v1/runs/8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11"]}}
}
STREAM: dict[str, Any] = {
    "headers": RUN_HEADER,
    "description": (
        "Server-sent events, each with its kind, its number and its payload as JSON. The last one is `run_finished`;"
        " comments in between show that the stream is alive."
    ),
    "content": {
        "text/event-stream": {
            "schema": {"oneOf": [described_event(kind, named(event)) for kind, event in KINDS.items()]},
            "example": 'event: run_started\nid: 1\ndata: {"strategy": "flash", "query": "…"}\n\n',
        }
    },
}
LINES: dict[str, Any] = {
    "description": "One event a line: seq, kind, at, payload.",
    "content": {"application/jsonl": {"schema": {"$ref": "#/components/schemas/EventLine"}}},
}

EXPORT: dict[str, Any] = {
    "description": "A memory: a header, a line for each message, and typed lines for everything else.",
    "content": {"application/jsonl": {"schema": {"type": "object"}}},
}


def event_stream(run_id: UUID, grant: Grant, *, after: int) -> StreamingHttpResponse:
    """Returns the run's events after number ``after`` as server-sent events, until the last one."""
    response = unbuffered(_sent_events(run_id, after, grant.token.pk), "text/event-stream")
    response["Content-Location"] = f"/v1/runs/{run_id}"
    return response


async def _sent_events(run_id: UUID, after: int, token: int | None = None) -> AsyncIterator[str]:
    change = await in_thread(lambda: guard.handing_over(Run.objects.select_related("owner").get(pk=run_id).owner))
    async with aclosing(follow(runner, run_id, after, token=token)) as followed:
        async for text in followed:
            yield ": nothing new yet\n\n" if text is None else await asyncio.to_thread(_event, text, change)


def _event(text: EventText, change: Change | None) -> str:
    payload = to_text(rewritten(KINDS[text.kind], json.loads(text.payload), change)) if change else text.payload
    return f"event: {text.kind}\nid: {text.seq}\ndata: {unbroken(payload)}\n\n"


def unbroken(payload: str) -> str:
    """Escapes the characters that many readers take for the end of a line; in JSON they occur only in strings."""
    return payload.translate(_LINE_ENDS)


async def event_lines(run_id: UUID) -> AsyncIterator[str]:
    """Yields the events recorded so far as JSON Lines."""
    pool = (await runner.clients()).pool
    async with aclosing(texts(pool, run_id)) as recorded:
        async for text in recorded:
            at = text.at.isoformat()
            yield f'{{"seq": {text.seq}, "kind": "{text.kind}", "at": "{at}", "payload": {unbroken(text.payload)}}}\n'


def unbuffered(
    content: AsyncIterator[str] | AsyncIterator[bytes], content_type: str, closer: Callable[[], object] | None = None
) -> StreamingHttpResponse:
    """Returns a response that sends each piece as it comes. ``closer`` is called at its end, read or not."""
    # The charset is stated because events contain unescaped Cyrillic. The headers ask proxies not to buffer the stream.
    response = StreamingHttpResponse(content, content_type=f"{content_type}; charset=utf-8")
    if closer:
        response._resource_closers.append(closer)  # type: ignore[attr-defined]
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response


class FilePieces(StreamingHttpResponse):
    """Sends a file piece by piece under this name, and closes it at the end. Threads read it, not the event loop."""

    def __init__(self, file: IO[bytes], content_type: str, name: str) -> None:
        super().__init__(_pieces(file), content_type=f"{content_type}; charset=utf-8")
        self["Content-Disposition"] = f'attachment; filename="{name}"'
        self["Cache-Control"] = "no-cache"
        self._file = file

    def close(self) -> None:
        """Also closes a file of which no piece was read, as after HEAD."""
        super().close()
        self._file.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = iter(cast(Iterable[bytes], self.streaming_content))
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece


router = Router(tags=["recall"])


@router.post(
    "/recall",
    operation_id="recall",
    auth=Token(Scope.RECALL),
    response=described(RecallAnswer, 202, 400, 404, 409, 413, 422),
)
async def recall(request: HttpRequest, body: RecallBody) -> RecallAnswer:
    """Ask a memory a question, and wait for what is chosen."""
    run = await in_thread(start_run, grant_of(request), body, caller_span(request.headers))
    return await _at_end(run, body.include)


async def _at_end(run: Run, include: Sequence[str]) -> RecallAnswer:
    """Waits for the end of the run; returns its answer."""
    await wait_for_end(run)
    return await in_thread(lambda: handed_over(RecallAnswer, EndedRun(run, include), run))


@router.post(
    "/recall/stream",
    operation_id="streamRecall",
    auth=Token(Scope.RECALL),
    response=described(None, 400, 404, 409, 413, 422),
    openapi_extra={"responses": {200: STREAM}},
)
async def recall_stream(request: HttpRequest, body: RecallBody) -> StreamingHttpResponse:
    """Ask a memory a question, and get every event as it is recorded; the last one is ``run_finished``. The header
    ``Content-Location`` names the run. If the connection breaks, continue at ``GET /v1/runs/<id>/stream``."""
    grant = grant_of(request)
    run = await in_thread(start_run, grant, body, caller_span(request.headers))
    runner.launch(run.pk)
    return event_stream(run.pk, grant, after=0)


# Questions answered in words: by the agent as a stream of its progress, and by the plain path as one document.
#
# A stream contains what a waiting person wants to see; everything else is in the run, at ``GET
# /v1/runs/<id>/events``. If the agent is switched off, the plain path answers in the stream, and the first event says
# so.

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

answers_router = Router(tags=["answers"], auth=Token(Scope.RECALL))


@answers_router.post(
    "/qa", operation_id="answerQuestion", response=described(WordsAnswer, 202, 400, 404, 409, 413, 422)
)
async def qa(request: HttpRequest, body: QuestionBody) -> WordsAnswer:
    """Ask a memory a question, and get an answer that quotes its messages: one search, one question to a model."""
    asked = body.recall(PLAIN.name)
    run = await in_thread(start_run, grant_of(request), asked, caller_span(request.headers))
    await wait_for_end(run)
    return await in_thread(lambda: handed_over(WordsAnswer, EndedRun(run), run))


@answers_router.post(
    "/agent/stream",
    operation_id="streamAnswer",
    response=described(None, 400, 404, 409, 413, 422),
    openapi_extra={"responses": {200: PROGRESS}},
)
async def agent_stream(request: HttpRequest, body: QuestionBody) -> StreamingHttpResponse:
    """Ask the agent a question, follow its progress and get its answer. The header ``Content-Location`` names the run.
    If the connection breaks, read the run at that address: it continues without the client."""
    grant = grant_of(request)
    run = await in_thread(start_run, grant, _in_force(body), caller_span(request.headers))
    runner.launch(run.pk)
    response = unbuffered(_stream(request, run, grant.token.pk), "text/event-stream")
    response["Content-Location"] = f"/v1/runs/{run.pk}"
    return response


def _in_force(body: QuestionBody) -> RecallBody:
    """The question to *react*; to *plain* while that is switched off, without the parameters that *plain* lacks. Raises
    ParameterError for one that *react* lacks."""
    asked = body.recall(REACT.name)
    if settings.ENABLE_AGENT:
        return asked
    validate(asked.parameters, REACT)
    return asked.model_copy(update={"strategy": PLAIN.name, "parameters": own(asked.parameters, PLAIN)})


async def _stream(request: HttpRequest, run: Run, token: int) -> AsyncIterator[str]:
    is_agent, url = run.strategy in PLANNING, reverse("run", args=[run.pk])
    begun = StreamBegun(run=run.pk, url=url, strategy=run.strategy, agent=is_agent, note="" if is_agent else OFF)
    yield _event_text(request, "run", 0, begun)
    async with aclosing(follow(runner, run.pk, token=token)) as followed:
        async for text in followed:
            if text is None:
                yield ": nothing new yet\n\n"
            elif text.kind == RunFinished.kind:
                await in_thread(run.refresh_from_db)
                answer = await in_thread(lambda: handed_over(WordsAnswer, EndedRun(run), run))
                yield _event_text(request, "answer", text.seq, answer)
            elif progress := from_payload(text.kind, json.loads(text.stored)).progress():
                shown = await in_thread(handed_over, StreamProgress, progress, run)
                yield _event_text(request, "progress", text.seq, shown)


def _event_text(request: HttpRequest, name: str, number: int, answer: Answer) -> str:
    return f"event: {name}\nid: {number}\ndata: {unbroken(written(answer, request))}\n\n"
