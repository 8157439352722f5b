"""Every endpoint of the API, with a body that it accepts."""

import json
import uuid
from functools import cache
from typing import Any
from urllib.parse import quote

from memoryapp.doors.api.urls import api
from tests.doors.sent import request, search
from tests.support.api_client import Program

SECRET = "кларнет"
MESSAGE = {"id": "x1", "role": "user", "author": "Anna", "ts": "2026-03-02T09:00:00Z", "text": "hello"}

ITEM = {"namespace": ["notes"], "key": "k1"}

QUESTION = {"role": "user", "content": SECRET}

Endpoint = tuple[str, str, Any]
LISTS = ("topics", "messages", "people", "artifacts", "facts", "imports")


@cache
def described() -> set[tuple[str, str]]:
    """Method and path of every endpoint; the whole OpenAPI description is generated for it."""
    paths = api.get_openapi_schema(path_prefix="/v1/")["paths"]
    return {(method, path) for path, methods in paths.items() for method in methods}


def endpoints(
    owner: str = "anna", topic: object = 1, run: object = None, edit: object = 1, fact: object = 1, change: object = 1
) -> list[Endpoint]:
    """Returns a valid request for every endpoint; a new endpoint fails here until somebody adds its request."""
    name = quote(owner, safe="")
    known: dict[tuple[str, str], tuple[str, Any]] = {
        ("post", "/v1/messages"): ("/v1/messages", {"user": owner, "messages": [MESSAGE]}),
        ("post", "/v1/sessions/close"): ("/v1/sessions/close", {"user": owner, "session": "nowhere"}),
        ("get", "/v1/sessions/closed"): (f"/v1/sessions/closed?user={quote(owner)}&first=1&last=2", None),
        ("get", "/v1/erasures/{number}"): ("/v1/erasures/1", None),
        ("post", "/v1/recall"): ("/v1/recall", {"user": owner, "query": SECRET}),
        ("post", "/v1/recall/stream"): ("/v1/recall/stream", {"user": owner, "query": SECRET}),
        ("post", "/v1/qa"): ("/v1/qa", {"user": owner, "query": SECRET}),
        ("post", "/v1/agent/stream"): ("/v1/agent/stream", {"user": owner, "query": SECRET}),
        ("post", "/v1/chat/completions"): ("/v1/chat/completions", {"user": owner, "messages": [QUESTION]}),
        ("post", "/v1/otlp/v1/traces"): ("/v1/otlp/v1/traces", request(search(2, 1, SECRET, SECRET, user__id=owner))),
        ("get", "/v1/models"): ("/v1/models", None),
        ("get", "/v1/audit"): ("/v1/audit", None),
        ("get", "/v1/runs"): (f"/v1/runs?user={name}", None),
        ("get", "/v1/runs/{pk}"): (f"/v1/runs/{run or uuid.uuid4()}", None),
        ("get", "/v1/runs/{pk}/events"): (f"/v1/runs/{run or uuid.uuid4()}/events", None),
        ("get", "/v1/runs/{pk}/capsule"): (f"/v1/runs/{run or uuid.uuid4()}/capsule?format=json", None),
        ("get", "/v1/runs/{pk}/stream"): (f"/v1/runs/{run or uuid.uuid4()}/stream", None),
        ("post", "/v1/runs/{pk}/fork"): (f"/v1/runs/{run or uuid.uuid4()}/fork", {"turn": 0, "changes": {}}),
        ("post", "/v1/decisions"): ("/v1/decisions", {"user": owner, "id": f"Fact:{fact}", "recall": "pinned"}),
        ("post", "/v1/decisions/{change}/undo"): (f"/v1/decisions/{change}/undo", {}),
        ("get", "/v1/users/{name}/decisions"): (f"/v1/users/{name}/decisions", None),
        ("post", "/v1/facts"): ("/v1/facts", {"user": owner, "content": SECRET}),
        ("patch", "/v1/facts/{id}"): (f"/v1/facts/{fact}", {"content": "Oboes"}),
        ("delete", "/v1/facts/{id}"): (f"/v1/facts/{fact}", None),
        ("post", "/v1/facts/changes/{change}/undo"): (f"/v1/facts/changes/{change}/undo", {}),
        ("post", "/v1/misses"): ("/v1/misses", {"user": owner, "question": SECRET}),
        ("get", "/v1/expiry"): (f"/v1/expiry?user={name}", None),
        ("post", "/v1/expiry/rehearsal"): ("/v1/expiry/rehearsal", {"user": owner, "noun": "run", "days": 30}),
        ("post", "/v1/expiry/batches/{id}/keep"): ("/v1/expiry/batches/1/keep", {}),
        ("get", "/v1/misses"): (f"/v1/misses?user={name}", None),
        ("get", "/v1/misses/days"): (f"/v1/misses/days?user={name}", None),
        ("get", "/v1/misses/{id}"): ("/v1/misses/1", None),
        ("post", "/v1/misses/{id}"): ("/v1/misses/1", {"do": "dismiss"}),
        ("get", "/v1/runs/{pk}/why_not"): (f"/v1/runs/{run or uuid.uuid4()}/why_not?topic={topic}", None),
        ("get", "/v1/compare"): (f"/v1/compare?run={run or uuid.uuid4()}&run={uuid.UUID(int=1)}", None),
        ("post", "/v1/runs/{pk}/answer"): (f"/v1/runs/{run or uuid.uuid4()}/answer", {"text": "So it is."}),
        ("put", "/v1/items"): ("/v1/items", {"user": owner, "items": [{**ITEM, "value": {"text": SECRET}}]}),
        ("post", "/v1/items/read"): ("/v1/items/read", {"user": owner, "items": [ITEM]}),
        ("post", "/v1/items/search"): ("/v1/items/search", {"user": owner, "query": SECRET}),
        ("post", "/v1/items/namespaces"): ("/v1/items/namespaces", {"user": owner}),
        ("get", "/v1/users"): ("/v1/users", None),
        ("delete", "/v1/users/{name}"): (f"/v1/users/{name}", None),
        ("delete", "/v1/users"): (f"/v1/users?user={name}", None),
        ("delete", "/v1/messages/{id}"): (f"/v1/messages/m0?user={name}", None),
        ("delete", "/v1/users/{name}/people/{id}"): (f"/v1/users/{name}/people/Person:1", None),
        ("get", "/v1/users/{name}/export"): (f"/v1/users/{name}/export", None),
        **{("get", f"/v1/users/{{name}}/{noun}"): (f"/v1/users/{name}/{noun}", None) for noun in LISTS},
        ("get", "/v1/topics/{id}"): (f"/v1/topics/{topic}", None),
        ("get", "/v1/topics/{id}/blame"): (f"/v1/topics/{topic}/blame", None),
        ("patch", "/v1/topics/{id}"): (f"/v1/topics/{topic}", {"summary": "Oboes"}),
        ("post", "/v1/topics/label"): ("/v1/topics/label", {"user": owner, "topics": [topic], "project": "work"}),
        ("post", "/v1/topics/merge"): ("/v1/topics/merge", {"user": owner, "topics": [topic, 2]}),
        ("post", "/v1/topics/{id}/split"): (f"/v1/topics/{topic}/split", {"at": ["m1"]}),
        ("post", "/v1/messages/move"): ("/v1/messages/move", {"user": owner, "messages": ["m1"], "to": None}),
        ("get", "/v1/edits"): (f"/v1/edits?user={name}", None),
        ("post", "/v1/edits/undo-night"): ("/v1/edits/undo-night", {"user": owner}),
        ("post", "/v1/edits/{id}/undo"): (f"/v1/edits/{edit}/undo", {}),
    }
    assert described() == known.keys(), f"change tests/doors/api/every_endpoint.py: {described() ^ known.keys()}"
    return [(method, *known[method, path]) for method, path in sorted(known)]


def asked(program: Program, endpoint: Endpoint) -> Any:
    method, path, body = endpoint
    return program.ask(method, path, b"" if body is None else json.dumps(body).encode())
