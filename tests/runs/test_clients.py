"""The chat model as the settings define it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from memoryapp.engine.chat.protocol import Reply
from memoryapp.platform.llm import clients
from tests.engine.endpoint import FREE, PLAIN, Endpoint, error, says
from tests.engine.scripted import collect


@pytest.fixture
def endpoint(settings: Any) -> Endpoint:
    settings.LLM_BASE_URL, settings.LLM_API_KEY = "https://models.example/v1", "secret-key"
    clients._learnt.cache_clear()
    return Endpoint(says("{}"))


def transport(endpoint: Endpoint) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(endpoint))


async def test_every_setting_of_the_chat_model_reaches_the_endpoint(endpoint: Endpoint, settings: Any) -> None:
    settings.LLM_REASONING_EFFORT = "high"
    settings.LLM_RESPONSE_HEALING = True
    settings.LLM_PROVIDER = {"sort": "latency"}
    settings.LLM_FALLBACK_MODELS = ["acme/pro"]
    async with transport(endpoint) as http:
        chat = clients.chat(http, "acme/flash")
        await collect(chat.converse(FREE))
        await collect(chat.converse(PLAIN))
    healed, streamed = endpoint.bodies
    assert (healed["reasoning"], healed["provider"]) == ({"effort": "high"}, {"sort": "latency"})
    assert (healed["models"], healed["plugins"]) == (["acme/pro"], [{"id": "response-healing"}])
    assert streamed["stream"] is True


async def test_streaming_can_be_switched_off(endpoint: Endpoint, settings: Any) -> None:
    settings.LLM_STREAM = False
    async with transport(endpoint) as http:
        await collect(clients.chat(http, "acme/flash").converse(PLAIN))
    assert "stream" not in endpoint.bodies[0]


async def test_what_a_model_cannot_do_is_found_out_once_by_whoever_asks_first(
    endpoint: Endpoint, settings: Any
) -> None:
    settings.LLM_STREAM = False
    strict = Endpoint(lambda sent: error(400, "reasoning is unsupported") if "reasoning" in sent else says("hi"))
    async with transport(strict) as http:
        steps, again = [await collect(clients.chat(http, "acme/flash").converse(PLAIN)) for _ in range(2)]
        other = await collect(clients.chat(http, "acme/pro").converse(PLAIN))
    assert (len(steps), len(again), len(other)) == (2, 1, 2)
    assert isinstance(again[0], Reply)
    limitations = [(one.host, one.model, one.step.capability) for one in clients.limitations()]
    assert limitations == [("models.example", name, "reasoning effort") for name in ("acme/flash", "acme/pro")]
