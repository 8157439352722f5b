"""A model endpoint with the answers of a test, behind httpx's own mock transport."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Learnt
from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.chat.protocol import ChatRequest, LLMError, Reply
from memoryapp.engine.events import SteppedDown
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA, TOOL, TOOL_NAME
from tests.engine.scripted import collect

QUESTION = [{"role": "user", "content": "hello"}]
FORCED = ChatRequest(QUESTION, tools=(TOOL,), force_tool=TOOL_NAME)
FREE = ChatRequest(QUESTION, tools=(TOOL,), answer_schema=ANSWER_SCHEMA)
LAST = ChatRequest(QUESTION, tools_off=(TOOL,), answer_schema=ANSWER_SCHEMA)
PLAIN = ChatRequest(QUESTION)


class Endpoint:
    """Answers each POST with the next response (the last one is repeated) and keeps the bodies."""

    def __init__(self, *answers: httpx.Response | Exception | Callable[[dict[str, Any]], httpx.Response]) -> None:
        self._answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[httpx.Headers] = []

    def __call__(self, sent: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(sent.content))
        self.headers.append(sent.headers)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(self.bodies[-1])

    def chat(self, learnt: Learnt | None = None, **options: Any) -> HttpChat:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        given = ChatOptions(**options)
        return HttpChat(client, "https://models.example/v1/", "secret-key", "acme/flash", given, learnt)


def says(text: str | None, **message: Any) -> httpx.Response:
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "cost": 0.5}
    return httpx.Response(200, json={"model": "acme/flash-001", "choices": [choice], "usage": usage})


def calls_tool(**extra: Any) -> httpx.Response:
    call = {"id": "c1", "type": "function", "function": {"name": TOOL_NAME, "arguments": '{"ids": [1]}'}}
    return says(None, tool_calls=[call], **extra)


def error(status: int, message: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": status, "message": message}}, headers=headers)


def event(**chunk: Any) -> bytes:
    """Returns a chunk of a streamed answer as it is sent."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return event(model="acme/flash-001", choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


USAGE = event(choices=[], usage={"prompt_tokens": 100, "completion_tokens": 20, "cost": 0.5})
END = b"data: [DONE]\n\n"


def streams(*pieces: bytes | Exception) -> httpx.Response:
    """Returns a streamed answer that arrives in these pieces; an exception breaks the connection."""

    async def content() -> AsyncIterator[bytes]:
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return httpx.Response(200, content=content(), headers={"Content-Type": "text/event-stream; charset=utf-8"})


async def reply(endpoint: Endpoint, request: ChatRequest = PLAIN, **options: Any) -> Reply:
    *_, last = await collect(endpoint.chat(**options).converse(request))
    assert isinstance(last, Reply)
    return last


async def failure(endpoint: Endpoint, request: ChatRequest = PLAIN, **options: Any) -> LLMError:
    with pytest.raises(LLMError) as caught:
        await collect(endpoint.chat(**options).converse(request))
    return caught.value


def steps_of(steps: list[Any]) -> list[tuple[str, str]]:
    return [(step.capability, step.instead) for step in steps if isinstance(step, SteppedDown)]


def answered(**message: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": TOOL_NAME, "arguments": '{"ids": [1]}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **message}


RESULT = {"role": "tool", "tool_call_id": "c1", "content": "=== Topic 1 ==="}


def talk(*more: dict[str, Any], **message: Any) -> ChatRequest:
    system = {"role": "system", "content": "You choose."}
    messages = (system, *QUESTION, answered(**message), RESULT, *more)
    return ChatRequest(messages, tools=(TOOL,), answer_schema=ANSWER_SCHEMA)


def refuses(status: int, body: Any, when: Callable[[dict[str, Any]], Any]) -> Endpoint:
    return Endpoint(lambda sent: httpx.Response(status, json=body) if when(sent) else says("{}"))


def is_forced(sent: dict[str, Any]) -> bool:
    return sent.get("tool_choice") not in (None, "auto", "none")


def has_schema(sent: dict[str, Any]) -> bool:
    return bool(sent.get("response_format", {}).get("type") == "json_schema")
