"""A chat model on the other end of a real HTTP connection, playing a part the test writes.

It speaks the OpenAI chat protocol, streamed where it is asked to. Each answer waits at a gate that the test
opens, so a test sees the page between two turns without ever sleeping; with ``grows`` set, a streamed choice
waits once more at the gate ``ends`` after its first half, so that a test sees an answer grow."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.clock import PATIENCE

GATES = ("asks", "chooses", "ends")


class Peer:
    """Answers enrichment with the query, then asks for the first topics, then chooses the first of them."""

    def __init__(self) -> None:
        self.reached = {name: threading.Event() for name in GATES}
        self.gates = {name: threading.Event() for name in GATES}
        self.grows = False
        self.requests: list[dict[str, Any]] = []
        self.asked: list[int] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = peer.answer(body)
                if body.get("stream"):
                    self._stream(answer)
                else:
                    self._begin("application/json")
                    self._write(json.dumps(answer).encode())
                self._write(b"")

            def _stream(self, answer: dict[str, Any]) -> None:
                self._begin("text/event-stream")
                for chunk in _chunks(answer):
                    self._write(f"data: {json.dumps(chunk)}\n\n".encode())
                    if peer.grows and _begins_a_choice(chunk):
                        peer.pass_gate("ends")
                self._write(b"data: [DONE]\n\n")

            def _begin(self, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()

            def _write(self, content: bytes) -> None:
                self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

            def log_message(self, *_arguments: Any) -> None:
                """Logs nothing, so that the test's own output stays readable."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        if any(message["role"] == "tool" for message in body["messages"]):
            return reply(self._choice(body))
        if not body.get("tools"):
            # The enricher's line, which no other agent can parse.
            return reply({"content": "vLLM H100 настройка"})
        return reply(self._question(body))

    def _question(self, body: dict[str, Any]) -> dict[str, Any]:
        self.pass_gate("asks")
        lines = re.findall(r"^\[Topic:(\d+)\]", body["messages"][1]["content"], re.M)
        self.asked = [int(number) for number in lines][:4]
        call = {"name": "get_topics_content", "arguments": json.dumps({"ids": self.asked})}
        return {
            "content": None,
            "reasoning": "The first four look close.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }

    def _choice(self, body: dict[str, Any]) -> dict[str, Any]:
        self.pass_gate("chooses")
        topics_text = next(message["content"] for message in body["messages"] if message["role"] == "tool")
        number = re.search(r"^=== Topic (\d+) ===", topics_text, re.M)
        user_line = re.search(r"^\[User[^\]]*\]: (.+)$", topics_text, re.M)
        assert number
        assert user_line
        chosen = {"id": f"Topic:{number[1]}", "reason": "It answers the question.", "excerpt": user_line[1]}
        return {"content": json.dumps({"topics": [chosen]}, ensure_ascii=False)}

    def pass_gate(self, gate: str) -> None:
        self.reached[gate].set()
        assert self.gates[gate].wait(PATIENCE), f"nobody opened the gate {gate}"

    def open(self) -> None:
        for gate in self.gates.values():
            gate.set()

    def close(self) -> None:
        for gate in self.gates.values():
            gate.clear()
        for reached in self.reached.values():
            reached.clear()

    def stop(self) -> None:
        self.open()
        self.server.shutdown()
        self.server.server_close()


def reply(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "gen-1",
        "model": "scripted/peer",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                "message": {"role": "assistant", **message},
            }
        ],
        "usage": {"prompt_tokens": 1200, "completion_tokens": 60, "total_tokens": 1260, "cost": 0.0004},
    }


def _chunks(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Yields the answer in pieces: the text in two halves, everything else at once."""
    top = {key: value for key, value in answer.items() if key not in ("choices", "usage")}
    choice = answer["choices"][0]
    text = choice["message"].get("content") or ""
    calls = [{"index": place, **call} for place, call in enumerate(choice["message"].get("tool_calls", ()))]
    first = {**choice["message"], "content": text[: len(text) // 2] or None}
    deltas = [{**first, "tool_calls": calls} if calls else first, {"content": text[len(text) // 2 :]}]
    chunks = [{**top, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    ended = {**top, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    return [*chunks, ended, {**top, "choices": [], "usage": answer["usage"]}]


def _begins_a_choice(chunk: dict[str, Any]) -> bool:
    return any(str(choice["delta"].get("content")).startswith("{") for choice in chunk["choices"])
