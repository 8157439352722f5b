"""Whatever the client sends and reads is in the API's description: a change of the API that it misses fails here."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from jsonschema import Draft202012Validator
from mnemoscope_client import AsyncMnemoscope, Mnemoscope, RefusedError, calls
from mnemoscope_client.calls import Call
from mnemoscope_client.errors import REFUSALS
from mnemoscope_client.shapes import RunEvent, TopicHead
from mnemoscope_client.streams import LAST_KIND

from memoryapp.doors.api.shapes.fields import CODES
from memoryapp.doors.api.urls import api
from tests.support.stack import CHECKOUT
from tools import client_shapes

Schema = Mapping[str, Any]


@cache
def document() -> Any:
    return api.get_openapi_schema(path_prefix="/v1/")


@cache
def operations() -> Mapping[str, tuple[str, str, Any]]:
    """Method, path and description of each endpoint, by its ``operationId``."""
    return {
        endpoint["operationId"]: (method.upper(), path, endpoint)
        for path, endpoints in document()["paths"].items()
        for method, endpoint in endpoints.items()
    }


def answer_schema(operation: str, kind: str = "application/json") -> Schema:
    schema: Schema = operations()[operation][2]["responses"][200]["content"][kind]["schema"]
    return schema


@dataclass(frozen=True)
class Side:
    """A schema, and the document in which its references point."""

    schema: Schema
    root: Schema

    def at(self, schema: Schema) -> Side:
        return Side(schema, self.root)

    def branches(self) -> Iterator[Side]:
        """Yields the schemas of which a value fulfils one, without references."""
        if "$ref" in self.schema:
            target = self.root
            for part in self.schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            yield from self.at(target).branches()
        elif several := self.schema.get("anyOf") or self.schema.get("oneOf") or self.schema.get("allOf"):
            for each in several:
                yield from self.at(each).branches()
        else:
            yield self


RUN = "8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11"
TURNS = [{"role": "user", "content": "Hello"}]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
RECALL: Mapping[str, Any] = {
    "user": "boris",
    "messages": TURNS,
    "media": [PICTURE],
    "strategy": "vector",
    "parameters": {"max_topics": 5},
}
# Every public method with every argument that it takes.
USED: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = {
    "remember": (([{"role": "user", "text": "Hello"}],), {"user": "boris"}),
    "recall": (("Which cake?",), {**RECALL, "include": ["messages", "passages"], "as_of": "2026-03-02"}),
    "recall_events": (("Which cake?",), RECALL),
    "ask": (("Which cake?",), {"user": "boris", "messages": TURNS, "parameters": {"max_topics": 5}, "agent": False}),
    "answered": ((RUN, "A honey cake."), {}),
    "watch": ((RUN,), {"after": 3}),
    "run": ((RUN,), {}),
    "why_not": ((RUN,), {"topic": "Topic:42", "message": "m1", "text": "cake"}),
    "topic": (("Topic:42",), {}),
    "topics": ((), {"user": "boris"}),
    "close_sessions": (("s1",), {"user": "boris"}),
    "decide": (("Topic:42", "pinned"), {"reason": "the plan", "user": "boris"}),
    "forget": (("m1",), {"user": "boris"}),
}


def every_call() -> Iterator[Call[Any]]:
    body = calls.recall_body("anna", "Which cake?", TURNS, [PICTURE], "flash", {"seconds": 5}, ["messages"])
    yield calls.remember("anna", "Hello")
    yield calls.recall(body)
    yield calls.ask(calls.question_body("anna", "Which cake?", TURNS, {}))
    yield calls.answered(RUN, "A honey cake.")
    yield calls.run(RUN)
    yield calls.why_not(RUN, topic="Topic:42")
    yield calls.close_sessions("anna", "s1")
    yield calls.topic("Topic:42")
    yield calls.topics("anna", "Topic:42")
    yield calls.decide("anna", "Topic:42", "pinned", "the plan")
    yield calls.forget("anna", "m1")
    yield calls.write_items("anna", [{"namespace": ["notes"], "key": "k", "value": {"a": 1}, "text": "a"}])
    yield calls.read_items("anna", [(("notes",), "k")])
    yield calls.search_items("anna", ("notes",), "cake", {"a": {"$gt": 1}}, 10, 5)
    yield calls.namespaces("anna", [("prefix", ("notes", "*"))], 2, 10, 5)


CALLS = {call.operation: call for call in every_call()}


def test_every_call_is_listed_here() -> None:
    made = [each for each in vars(calls).values() if inspect.isfunction(each)]
    assert len(CALLS) == sum("calls.Call[" in str(each.__annotations__.get("return")) for each in made)


def test_the_shapes_of_the_client_are_those_of_the_api() -> None:
    assert client_shapes.PATH.read_text(encoding="utf-8") == client_shapes.written(), client_shapes.MARK


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_answer_is_read_in_its_shape(call: Call[Any]) -> None:
    shape = answer_schema(call.operation)["$ref"].rpartition("/")[2]
    assert client_shapes.NAMES[shape] == call.shape.__name__


def test_the_agents_answer_and_the_last_event_are_described() -> None:
    [begun, _progress, answer] = answer_schema("streamAnswer", "text/event-stream")["oneOf"]
    assert begun["properties"]["event"]["const"] == "run"
    assert "run" in begun["properties"]["data"]["contentSchema"]["properties"]
    assert answer["properties"]["event"]["const"] == "answer"
    assert client_shapes.NAMES[answer["properties"]["data"]["contentSchema"]["$ref"].rpartition("/")[2]] == "Answered"
    for operation in ("streamRecall", "streamRun"):
        kinds = [
            each["properties"]["event"]["const"] for each in answer_schema(operation, "text/event-stream")["oneOf"]
        ]
        assert LAST_KIND in kinds
        assert "Content-Location" in operations()[operation][2]["responses"][200]["headers"]


def test_each_refusal_has_its_exception() -> None:
    assert {status for status in CODES if status not in REFUSALS} == {405, 500}
    for _method, _path, endpoint in operations().values():
        assert all("Retry-After" in endpoint["responses"][status]["headers"] for status in (429, 503))


class Described(httpx.MockTransport):
    """Answers nothing, and checks each request against the description."""

    def __init__(self) -> None:
        super().__init__(self.check)
        self.operations: set[str] = set()

    def check(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        operation, described = next(
            (name, endpoint)
            for name, (method, template, endpoint) in operations().items()
            if method == request.method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
            # As the server's addresses, the more particular one goes first.
            if "{" not in template or path not in document()["paths"]
        )
        self.operations.add(operation)
        self._check_parameters(request, described)
        self._check_body(request, described)
        return httpx.Response(418, json={"error": {"code": "teapot", "message": "Nothing is answered here."}})

    def _check_parameters(self, request: httpx.Request, described: Any) -> None:
        known = {each["name"].lower(): each for each in described.get("parameters", ())}
        for name, value in parse_qsl(request.url.query.decode()):
            assert known[name]["in"] == "query"
            sent = int(value) if known[name]["schema"].get("type") == "integer" else value
            _check(known[name]["schema"], sent)
        if "Last-Event-ID" in request.headers:
            assert known["last-event-id"]["in"] == "header"

    def _check_body(self, request: httpx.Request, described: Any) -> None:
        if not request.content:
            assert "requestBody" not in described
            return
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        body = json.loads(request.content)
        _check(schema, body)
        [whole] = Side(schema, document()).branches()
        assert body.keys() <= whole.schema["properties"].keys()
        if request.url.path == "/v1/messages":
            [message, *_others] = whole.schema["properties"]["messages"]["items"]["anyOf"]
            assert body["messages"][0].keys() <= message["properties"].keys()
            _check(message, body["messages"][0])


def _check(schema: Any, value: Any) -> None:
    Draft202012Validator({**schema, "components": document()["components"]}).validate(value)


def methods(client: type) -> set[str]:
    own = {name for name, value in vars(client).items() if inspect.isfunction(value) and not name.startswith("_")}
    return own - {"close", "aclose", "send"}


async def test_every_request_of_both_clients_is_described() -> None:
    transport = Described()
    assert USED.keys() == methods(Mnemoscope) == methods(AsyncMnemoscope)
    with Mnemoscope("http://memory/v1/", "token", transport=transport) as client:
        for name, (arguments, options) in USED.items():
            assert options.keys() == _options(getattr(client, name), options)
            with pytest.raises(RefusedError, match="Nothing is answered here"):
                _drain(getattr(client, name)(*arguments, **options))
        for call in CALLS.values():
            with pytest.raises(RefusedError, match="Nothing is answered here"):
                client.send(call)
    items = {"writeItems", "readItems", "searchItems", "listNamespaces"}
    waiting, transport.operations = transport.operations - items, set()
    async with AsyncMnemoscope("http://memory", "token", transport=transport) as client:
        for name, (arguments, options) in USED.items():
            with pytest.raises(RefusedError, match="Nothing is answered here"):
                await _adrain(getattr(client, name)(*arguments, **options))
    assert transport.operations == waiting == {*CALLS, "streamRecall", "streamRun"} - items


def _options(method: Any, given: Mapping[str, Any]) -> set[str]:
    named = inspect.signature(method).parameters.values()
    return {each.name for each in named if each.kind is each.KEYWORD_ONLY or each.name in given}


def _drain(answer: Any) -> None:
    if isinstance(answer, Iterator):
        list(answer)


async def _adrain(answer: Any) -> None:
    if isinstance(answer, AsyncIterator):
        [event async for event in answer]
    else:
        await answer


def test_the_client_has_the_version_of_the_program() -> None:
    files = [tomllib.loads((CHECKOUT / folder / "pyproject.toml").read_text("utf-8")) for folder in (".", "client")]
    assert len({file["project"]["version"] for file in files}) == 1


def test_both_clients_have_the_same_signatures() -> None:
    for name in methods(Mnemoscope):
        waits, awaited = (inspect.signature(getattr(each, name)) for each in (Mnemoscope, AsyncMnemoscope))
        assert list(waits.parameters.values()) == list(awaited.parameters.values()), name
        same = {AsyncGenerator[RunEvent, None]: Iterator[RunEvent], AsyncIterator[TopicHead]: Iterator[TopicHead]}
        assert same.get(awaited.return_annotation, awaited.return_annotation) == waits.return_annotation
