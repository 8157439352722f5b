"""A chat model as an endpoint that answers by a script: it repeats the query, reads the first two topics, chooses the
one whose line names the dentist, else the first, and writes one summary. ``python -m tests.misses.scripted 8199``
serves it by hand."""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SUMMARY = "Winter tyres on the car before the frost; the dentist, Dr Sokolova, on Thursday at nine"
_LINE = re.compile(r"^\[(Topic:\d+)\] .*$", re.M)
_TOLD = re.compile(r"<(?:user_)?(?:query|message)>\s*(.*?)\s*</", re.S)


class ScriptedModel(ThreadingHTTPServer):
    """``asked`` are the kinds of questions that came: enrich, rerank, merge."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedModel

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind, message = answer_to(body)
        self.server.asked.append(kind)
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}
        sent = json.dumps({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent.encode())

    def log_message(self, *_arguments: Any) -> None:
        """Logs nothing, so that the test's own output stays readable."""


def answer_to(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    text = "\n".join(each["content"] for each in body["messages"] if isinstance(each.get("content"), str))
    if "merged_summary" in text:
        return "merge", {"content": json.dumps({"merged_summary": SUMMARY})}
    lines = list(_LINE.finditer(text))
    if "topic_candidates" not in text:
        told = _TOLD.findall(text)
        return "enrich", {"content": told[-1] if told else "?"}
    if not any(each["role"] == "tool" for each in body["messages"]):
        asked = {"ids": [int(each[1].partition(":")[2]) for each in lines[:2]]}
        function = {"name": "get_topics_content", "arguments": json.dumps(asked)}
        return "rerank", {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    chosen = next((each for each in lines if "dentist" in each[0].lower()), lines[0])
    picked = {"id": chosen[1], "reason": "Its line says it.", "excerpt": ""}
    return "rerank", {"content": json.dumps({"topics": [picked], "people": [], "artifacts": []})}


if __name__ == "__main__":
    print(ScriptedModel(int(sys.argv[1])).url, flush=True)
    threading.Event().wait()
