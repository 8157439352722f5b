"""Each provider of the table in ``docs/endpoints.md``: a whole rerank, and the trial of its endpoint."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command

from memoryapp.engine.chat.capabilities import Learnt
from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.parameters import Limits
from memoryapp.engine.strategies.flash import rerank
from memoryapp.platform.llm import clients
from tests.engine.endpoint import says
from tests.engine.scripted import emitted, end, ids, of, request, topic_reader
from tests.peers.providers import USAGE, Provider, as_openai, chunk, error, providers, streamed

ALL = list(providers())


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", ALL, ids=[each.name for each in ALL])
@pytest.mark.parametrize("turns", [1, 3], ids=["is told to answer", "answers after reading"])
async def test_a_rerank_ends_with_the_models_choice_and_the_next_has_learnt(
    provider: Provider, stream: bool, turns: int
) -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(provider))
    chat = HttpChat(http, "https://models.example/v1", "secret-key", "m", ChatOptions(stream=stream), Learnt())
    for is_first in (True, False):
        limits = Limits(max_tool_calls=turns)
        events = await emitted(rerank, request(1, 2, 3), chat=chat, read_topics=topic_reader(), limits=limits)
        finished = end(events)
        assert (finished.fallback, ids(finished)) == ("", ["Topic:2"])
        assert finished.requested == ("Topic:2", "Topic:3")
        assert not of(Retried, events)
        assert is_first or not of(SteppedDown, events)


def test_the_table_names_each_provider() -> None:
    page = Path("docs/endpoints.md").read_text(encoding="utf-8")
    assert [each.name for each in ALL if f"| {each.name} |" not in page] == []


# The trial of an endpoint: what it finds with each kind of provider, with a dead one, and what the command prints.


KEY = "secret-key-of-the-test"
QUESTIONS = ["forced_call", "free_call", "schema", "streaming", "reasoning", "usage", "images", "embeddings"]


def able(body: dict[str, Any]) -> httpx.Response:
    """A model that can do everything of a trial."""
    if "tools" in body:
        function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"city": "Tbilisi"}'}
        return says(None, tool_calls=[{"id": "c1", "type": "function", "function": function}])
    if "response_format" in body:
        return says('{"city": "Tbilisi", "country": "Georgia"}')
    if body.get("stream"):
        return streamed(chunk({"reasoning_content": "hm"}), chunk({"content": "400"}), chunk({}, "stop", usage=USAGE))
    return says("red")


def unable(body: dict[str, Any]) -> httpx.Response:
    """A model that refuses tools as objects, formats and pictures."""
    if isinstance(body.get("tool_choice"), dict):
        return httpx.Response(400, json={"error": "Invalid tool_choice type: 'object'."})
    if "response_format" in body:
        return error(400, "This response_format type is unavailable now")
    if "image_url" in json.dumps(body["messages"]):
        return error(400, f"No endpoints found that support image input, said {KEY}")
    return able(body) if "tools" in body else as_openai(body, {"role": "assistant", "content": "I do not know."})


@pytest.fixture
def connected(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Connects the settings to a model of the test, and to embeddings of three numbers."""

    def connect(model: Callable[[dict[str, Any]], httpx.Response]) -> None:
        def answer(sent: httpx.Request) -> httpx.Response:
            body = json.loads(sent.content)
            if sent.url.path.endswith("/embeddings"):
                rows = [{"index": place, "embedding": [1.0, place, 0.0]} for place in range(len(body["input"]))]
                return httpx.Response(200, json={"data": rows})
            return model(body)

        settings.LLM_BASE_URL = settings.EMBEDDING_BASE_URL = "https://models.example/v1"
        settings.LLM_API_KEY = settings.EMBEDDING_API_KEY = KEY
        settings.EMBEDDING_DIMENSIONS, settings.EMBEDDING_MODEL = 3, "small"
        transport = httpx.MockTransport(answer)
        monkeypatch.setattr(clients, "http_client", lambda: httpx.AsyncClient(transport=transport))

    return connect


def tried(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("try_endpoint", "--json", *arguments, stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_an_endpoint_that_can_do_everything_says_so_eight_times(connected: Callable[..., None]) -> None:
    connected(able)
    found = tried()
    assert [finding["question"] for finding in found["findings"]] == QUESTIONS
    assert {finding["can"] for finding in found["findings"]} == {"yes"}
    assert (found["host"], found["embedding_host"]) == ("models.example", "models.example")


def test_what_an_endpoint_refuses_is_told_in_its_words_and_never_with_the_key(connected: Callable[..., None]) -> None:
    connected(unable)
    found = tried()
    by = {finding["question"]: finding for finding in found["findings"]}
    assert (by["forced_call"]["can"], by["forced_call"]["instead"]) == ("instead", ["required"])
    assert "Invalid tool_choice type" in by["forced_call"]["words"]
    assert by["schema"]["can"] == by["reasoning"]["can"] == by["images"]["can"] == "no"
    assert "image input" in by["images"]["words"]
    assert KEY not in json.dumps(found)
    out = StringIO()
    call_command("try_endpoint", stdout=out)
    assert KEY not in out.getvalue()
    assert "unavailable now" in out.getvalue()


def test_only_the_embedding_endpoint_is_asked_on_demand(connected: Callable[..., None]) -> None:
    connected(lambda _body: pytest.fail("the chat endpoint was asked"))
    assert [finding["question"] for finding in tried("--embeddings")["findings"]] == ["embeddings"]


def test_a_dead_endpoint_is_a_sentence(connected: Callable[..., None]) -> None:
    def dead(_body: dict[str, Any]) -> httpx.Response:
        return error(401, f"no such key: {KEY}")

    connected(dead)
    with pytest.raises(CommandError, match="does not accept the API key") as refusal:
        call_command("try_endpoint", stdout=StringIO())
    assert KEY not in str(refusal.value)


def test_without_an_endpoint_the_command_says_which_setting_is_missing(settings: Any) -> None:
    settings.LLM_BASE_URL = settings.EMBEDDING_BASE_URL = ""
    with pytest.raises(CommandError, match="LLM_BASE_URL"):
        call_command("try_endpoint", stdout=StringIO())
