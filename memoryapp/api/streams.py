"""Events on the wire: server-sent events, and JSON Lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import IO, Any, cast
from uuid import UUID

from django.http import StreamingHttpResponse

from memoryapp.accounts.tokens import Grant
from memoryapp.engine.events import KINDS
from memoryapp.runs.followers import EventText, follow, texts
from memoryapp.runs.runner import runner

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
    async with aclosing(follow(runner, run_id, after, token=token)) as followed:
        async for text in followed:
            yield ": nothing new yet\n\n" if text is None else _event(text)


def _event(text: EventText) -> str:
    return f"event: {text.kind}\nid: {text.seq}\ndata: {unbroken(text.payload)}\n\n"


def unbroken(payload: str) -> str:
    """Escapes the characters that many readers take for the end of a line; in JSON they occur only in strings."""
    return payload.translate(_LINE_ENDS)


def event_lines(run_id: UUID) -> StreamingHttpResponse:
    """Returns the events recorded so far as JSON Lines."""
    return unbuffered(_json_lines(run_id), "application/jsonl")


async def _json_lines(run_id: UUID) -> AsyncIterator[str]:
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
