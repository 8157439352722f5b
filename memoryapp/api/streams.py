"""Events on the wire: server-sent events, and JSON Lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse

from memoryapp.api.following import Line, follow, lines
from memoryapp.engine.events import KINDS
from memoryapp.runner import runner
from memoryapp.tokens import Grant

_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}


def _sent_event(kind: str, event: type[Any]) -> dict[str, Any]:
    payload = {"$ref": f"#/components/schemas/{event.__name__}"}
    return {
        "type": "object",
        "required": ["event", "id", "data"],
        "properties": {
            "event": {"const": kind},
            "id": {"type": "string", "pattern": "^[1-9][0-9]*$", "description": "the event's number, seq"},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": payload},
        },
    }


STREAM: dict[str, Any] = {
    "description": (
        "Server-sent events, each with its kind, its number and its payload as JSON. The last one is `run_finished`;"
        " comments in between show that the stream is alive."
    ),
    "content": {
        "text/event-stream": {
            "schema": {"oneOf": [_sent_event(kind, event) for kind, event in KINDS.items()]},
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
    return f"event: {line.kind}\nid: {line.seq}\ndata: {_unbroken(line.payload)}\n\n"


def _unbroken(payload: str) -> str:
    """JSON text without the characters that many readers take for the end of a line; they stand only in strings."""
    return payload.translate(_LINE_ENDS)


def event_lines(run_id: UUID) -> StreamingHttpResponse:
    """The events recorded by now as JSON Lines."""
    return _unbuffered(_json_lines(run_id), "application/jsonl")


async def _json_lines(run_id: UUID) -> AsyncIterator[str]:
    pool = (await runner.clients()).pool
    async with aclosing(lines(pool, run_id)) as recorded:
        async for line in recorded:
            at = line.at.isoformat()
            yield f'{{"seq": {line.seq}, "kind": "{line.kind}", "at": "{at}", "payload": {_unbroken(line.payload)}}}\n'


def _unbuffered(content: AsyncIterator[str], content_type: str) -> StreamingHttpResponse:
    # A charset is stated, for events hold unescaped Cyrillic; proxies are asked not to gather what streams.
    response = StreamingHttpResponse(content, content_type=f"{content_type}; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response
