"""Events on the wire: server-sent events, and JSON Lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse

from memoryapp.api.following import Line, follow, lines
from memoryapp.runner import runner
from memoryapp.tokens import Grant

STREAM: dict[str, Any] = {
    "description": "Server-sent events: `event` is the kind, `id` the number, `data` the payload as JSON.",
    "content": {
        "text/event-stream": {
            "schema": {"type": "string"},
            "example": 'event: run_started\nid: 1\ndata: {"strategy": "flash", "query": "…"}\n\n',
        }
    },
}
LINES: dict[str, Any] = {
    "description": "One event a line: seq, kind, at, payload.",
    "content": {"application/jsonl": {"schema": {"$ref": "#/components/schemas/EventLine"}}},
}


def event_stream(run_id: UUID, grant: Grant, *, after: int) -> StreamingHttpResponse:
    """The run's events above number ``after`` as server-sent events, until the last one."""
    response = _unbuffered(_sent_events(run_id, after, grant.token.pk), "text/event-stream")
    response["Content-Location"] = f"/v1/runs/{run_id}"
    return response


async def _sent_events(run_id: UUID, after: int, token: int | None = None) -> AsyncIterator[str]:
    async with aclosing(follow(runner, run_id, after, token=token)) as followed:
        async for line in followed:
            yield ": nothing new yet\n\n" if line is None else _event(line)


def _event(line: Line) -> str:
    return f"event: {line.kind}\nid: {line.seq}\ndata: {line.payload}\n\n"


def event_lines(run_id: UUID) -> StreamingHttpResponse:
    """The events recorded by now as JSON Lines."""
    return _unbuffered(_json_lines(run_id), "application/jsonl")


async def _json_lines(run_id: UUID) -> AsyncIterator[str]:
    pool = (await runner.clients()).pool
    async with aclosing(lines(pool, run_id)) as recorded:
        async for line in recorded:
            at = line.at.isoformat()
            yield f'{{"seq": {line.seq}, "kind": "{line.kind}", "at": "{at}", "payload": {line.payload}}}\n'


def _unbuffered(content: AsyncIterator[str], content_type: str) -> StreamingHttpResponse:
    # A charset is stated, for events hold unescaped Cyrillic; proxies are asked not to gather what streams.
    response = StreamingHttpResponse(content, content_type=f"{content_type}; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response
