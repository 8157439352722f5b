"""A chat model on the other end of a real HTTP connection, playing a part the test writes.

It speaks the OpenAI chat protocol. Each answer waits at a gate that the test opens, so a test sees the page
between two turns without ever sleeping.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Peer:
    """Answers enrichment with the query, then asks for the first topics, then chooses the first of them."""

    def __init__(self) -> None:
        self.reached = {"asks": threading.Event(), "chooses": threading.Event()}
        self.gates = {"asks": threading.Event(), "chooses": threading.Event()}
        self.requests: list[dict[str, Any]] = []
        self.asked: list[int] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(peer.answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_arguments: Any) -> None:
                """Quiet: the test's own output says what matters."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        if not body.get("tools"):
            return _reply({"content": "vLLM H100 настройка"} if len(body["messages"]) == 2 else self._choice(body))
        if any(message["role"] == "tool" for message in body["messages"]):
            return _reply(self._choice(body))
        return _reply(self._question(body))

    def _question(self, body: dict[str, Any]) -> dict[str, Any]:
        self._pass("asks")
        lines = re.findall(r"^\[Topic:(\d+)\]", body["messages"][1]["content"], re.M)
        self.asked = [int(number) for number in lines][:4]
        call = {"name": "get_topics_content", "arguments": json.dumps({"ids": self.asked})}
        return {
            "content": None,
            "reasoning": "The first four look close.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }

    def _choice(self, body: dict[str, Any]) -> dict[str, Any]:
        self._pass("chooses")
        told = next(message["content"] for message in body["messages"] if message["role"] == "tool")
        number = re.search(r"^=== Topic (\d+) ===", told, re.M)
        said = re.search(r"^\[User[^\]]*\]: (.+)$", told, re.M)
        assert number
        assert said
        chosen = {"id": f"Topic:{number[1]}", "reason": "It answers the question.", "excerpt": said[1]}
        return {"content": json.dumps({"topics": [chosen]}, ensure_ascii=False)}

    def _pass(self, gate: str) -> None:
        self.reached[gate].set()
        assert self.gates[gate].wait(60), f"nobody opened the gate {gate}"

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


def _reply(message: dict[str, Any]) -> dict[str, Any]:
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
