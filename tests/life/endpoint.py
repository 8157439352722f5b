"""A model endpoint over real HTTP that counts its requests, for processes that are killed in the middle."""

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from tests.curation.merger_passes import verdict
from tests.curation.reading import fact, person
from tests.support.splitting import in_fours, lines_of

DIMENSIONS = 16
SPLITTER, MERGER, ARCHIVIST = "acme/splitter", "acme/merger", "acme/archivist"
_ID = re.compile(r'"id": (\d+)')


def direction(text: str) -> list[float]:
    """Returns a unit vector for the text, the same every time."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).normal(size=DIMENSIONS)
    return [float(number) for number in vector / np.linalg.norm(vector)]


class Endpoint:
    """``answered`` counts each question whose whole reply was sent: one to a chat model, or one text to an embedding
    model. While ``gate`` is closed, replies wait; ``arrived`` is set when a question has come."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.gate, self.arrived = threading.Event(), threading.Event()
        self.gate.set()
        self.repeated = 0
        self._lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.arrived.set()
                endpoint.gate.wait(300)
                content = json.dumps(endpoint.answer(body)).encode()
                # The process that asked may have been killed.
                with suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, *_arguments: Any) -> None:
                """Logs nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def forget(self) -> None:
        """Resets the counts and opens the gate."""
        self.gate.set()
        self.arrived.clear()
        with self._lock:
            self.answered.clear()
            self.repeated = 0

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        questions = body["input"] if "input" in body else [json.dumps([body["model"], body["messages"]])]
        with self._lock:
            self.repeated += any(self.answered[question] for question in questions)
            self.answered.update(questions)
        return _vectors(questions) if "input" in body else reply(body)

    @property
    def extra(self) -> int:
        """Returns how many questions were answered more than once."""
        return sum(count - 1 for count in self.answered.values())


def _vectors(texts: Sequence[str]) -> dict[str, Any]:
    data = [{"index": place, "embedding": direction(text)} for place, text in enumerate(texts)]
    return {"data": data, "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)}}


def reply(body: dict[str, Any]) -> dict[str, Any]:
    prompt = str(body["messages"][1]["content"])
    ids = [int(number) for number in _ID.findall(prompt)]
    answers = {
        SPLITTER: lambda: in_fours(lines_of(prompt)),
        MERGER: lambda: _merged(prompt),
        ARCHIVIST: lambda: _finding(prompt, ids),
    }
    content = answers[body["model"]]()
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, "cost": 0.001}
    return {"id": "gen-1", "model": body["model"], "choices": [choice], "usage": usage}


def _merged(prompt: str) -> str:
    """Returns a summary in words of the messages that no other talk has, if the messages have such words."""
    talk = re.search(r"talk \d+", prompt)
    return verdict(summary=f"What the brass orchestra said in {talk[0]}") if talk else verdict()


def _finding(prompt: str, ids: Sequence[int]) -> str:
    """Returns one fact and one person that the first message names, and no other conversation."""
    said = re.search(r"dish(\d+)", prompt)
    name = said[1] if said else f"{ids[0]}"
    facts = [{**fact(f"Likes dish{name}.", f"likes_{name}", f"food_{name}"), "messages": ids[:1]}]
    return json.dumps({"facts": facts, "people": [{**person(f"Dora{name} Blau"), "messages": ids[:1]}]})


@contextmanager
def serving() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    threading.Thread(target=endpoint.server.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        endpoint.gate.set()
        endpoint.server.shutdown()
        endpoint.server.server_close()
