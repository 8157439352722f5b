"""A chat model that answers after a fixed time, in a process of its own: ``python -m tools.bench.peer 0.2``.

It speaks OpenAI's chat protocol, streamed or not. It always calls the tool for the first ten candidates, then chooses
three of those that it read. It prints its port and ends with the process that started it. It searches requests as
bytes, so its own work takes little of the machine that is measured.
"""

import asyncio
import json
import re
import sys
from itertools import islice
from typing import Any

ASKS, CHOOSES = 10, 3
CANDIDATE = re.compile(rb"\[Topic:(\d+)\] \(")
# A topic in the result of the tool, and the text of a message of it.
READ = re.compile(rb"=== Topic (\d+) ===.{0,1000}?\]: ([ -!#-\[\]-~]{20,})")
TOOL_RESULT = re.compile(rb'"role": ?"tool"')
STREAMED = re.compile(rb'"stream": ?true')
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
USAGE = {"prompt_tokens": 9000, "completion_tokens": 120, "total_tokens": 9120, "cost": 0.0005}


class Peer(asyncio.Protocol):
    """One connection, kept alive, with one request after another."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._read = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, blank, _rest = self._read.partition(b"\r\n\r\n")
        length = LENGTH.search(head) if blank else None
        end = len(head) + 4 + int(length[1]) if length else 0
        if length and len(self._read) >= end:
            request = bytes(self._read[len(head) + 4 : end])
            del self._read[:end]
            asyncio.get_running_loop().call_later(self._seconds, self._answer, request)

    def _answer(self, request: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer(request))


def answer(request: bytes) -> bytes:
    """Returns the complete HTTP response to the body of a request."""
    return _streamed(request) if STREAMED.search(request) else _whole(request)


def message(request: bytes) -> dict[str, Any]:
    """Returns the assistant's message for this request."""
    if TOOL_RESULT.search(request):
        return {"role": "assistant", "content": _choice(request)}
    if b'"tools"' in request:
        ids = [int(found[1]) for found in islice(CANDIDATE.finditer(request), ASKS)]
        function = {"name": "get_topics_content", "arguments": json.dumps({"ids": ids})}
        call = {"id": "call_1", "type": "function", "index": 0, "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "assistant", "content": "what was said about it last week"}


def _choice(request: bytes) -> str:
    texts = {int(found[1]): found[2].decode() for found in islice(READ.finditer(request), CHOOSES)}
    chosen = [{"id": f"Topic:{id}", "reason": "It answers.", "excerpt": text} for id, text in texts.items()]
    return json.dumps({"topics": chosen})


def _whole(request: bytes) -> bytes:
    reply = message(request)
    choice = {"index": 0, "finish_reason": _reason(reply), "message": reply}
    return _http(b"application/json", _json({"id": "1", "model": "peer", "choices": [choice], "usage": USAGE}))


def _streamed(request: bytes) -> bytes:
    reply = message(request)
    pieces: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": reply, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": _reason(reply)}], "usage": USAGE},
    ]
    lines = [b"data: " + _json({"id": "1", "model": "peer", **piece}) + b"\n\n" for piece in pieces]
    return _http(b"text/event-stream", b"".join(lines) + b"data: [DONE]\n\n")


def _reason(reply: dict[str, Any]) -> str:
    return "tool_calls" if reply.get("tool_calls") else "stop"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _http(kind: bytes, content: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(content), content)


async def serve(seconds: float) -> None:
    """Answers each request after ``seconds``, until the process ends."""
    server = await asyncio.get_running_loop().create_server(lambda: Peer(seconds), "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
