"""The SDKs of OpenAI against the whole program: only the address and the key are other than usual."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.peers.chat_provider import MODEL, WORDS, ChatProvider
from tests.support.clock import PATIENCE
from tests.support.node import fetched, node
from tests.support.stack import Stack, wait_for

PACKAGE = "openai@7.57.0"
INTEGRITY = "sha512-RbmrdE5NdfW6nGq/FaCJ3KFCZpotoExPzruQUSMCTw/ouUFO08vpvVdSmgmPxQMFAiv9EXZCEXvcWYU+n6NzsQ=="
ANSWER = "".join(WORDS)
QUESTION: Any = [{"role": "user", "content": "What did I do about vLLM on the H100?"}]
TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
EARLIER = [
    "How do I set up vLLM on the H100? vLLM on our H100 dies with out of memory.",
    "Lower gpu_memory_utilization.",
]
# A Node program: it prints what it got as one JSON document.
NODE = """
import OpenAI from PACKAGE;
const [baseURL, apiKey, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "What did I do about vLLM on the H100?" }];
const { data, response } = await client.chat.completions.create({ model, messages }).withResponse();
let streamed = "";
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true }))
  streamed += chunk.choices[0]?.delta?.content ?? "";
const left = await client.chat.completions.create({ model, messages, stream: true });
for await (const chunk of left) break;
const listed = await client.models.list();
let refused = {};
try {
  await new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).chat.completions.create({ model, messages });
} catch (error) {
  refused = { status: error.status, code: error.code, kind: error.constructor.name };
}
console.log(JSON.stringify({
  text: data.choices[0].message.content, run: response.headers.get("x-mnemoscope-run"), streamed, refused,
  models: listed.data.map((each) => each.id),
}));
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[ChatProvider]:
    made = ChatProvider()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stack(provider: ChatProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("sdks")
    settings = {"LLM_BASE_URL": provider.url, "LLM_API_KEY": "sk-of-the-settings", "CHAT_STORE": "true"}
    settings["CHAT_SHARED_KEY"] = "true"
    started = Stack(folder / "data", "--no-demo", API_RATE="1000000/m", WEB_CONCURRENCY="1", **settings)
    yield started
    complaints = started.complaints()
    assert started.stop() == 0
    assert complaints == []


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    of_all = stack.json("create_token", "importer", "--scope", "ingest")["token"]
    messages = [{"id": f"m{n}", "role": role, "text": EARLIER[n]} for n, role in enumerate(("user", "assistant"))]
    headers = {"Authorization": f"Bearer {of_all}"}
    httpx.post(
        f"{stack.url}/v1/messages", json={"user": "anna", "messages": messages}, headers=headers, timeout=PATIENCE
    )
    return str(stack.json("create_token", "assistant", "--scope", "recall,ingest", "--user", "anna")["token"])


@pytest.fixture
def client(stack: Stack, token: str, provider: ChatProvider) -> Iterator[openai.OpenAI]:
    provider.calm()
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key=token, max_retries=0, timeout=PATIENCE) as made:
        yield made


def stored(stack: Stack) -> list[str]:
    done = stack.command("export_user", "anna", "-")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [str(line["text"]) for line in lines if str(line.get("id", "")).startswith("chat:")]


def test_one_line_gives_an_assistant_its_memory(client: openai.OpenAI, provider: ChatProvider) -> None:
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=QUESTION)
    assert raw.parse().choices[0].message.content == ANSWER
    assert "dies with out of memory" in provider.requests[-1]["messages"][0]["content"]
    assert "/runs/" in raw.headers["X-Mnemoscope-Run"]
    assert [model.id for model in client.models.list()] == [MODEL]


def test_a_stream_comes_word_by_word(client: openai.OpenAI, provider: ChatProvider) -> None:
    provider.goes_on.clear()
    words = []
    for chunk in client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True):
        if word := chunk.choices[0].delta.content:
            words.append(word)
            provider.goes_on.set()
    assert words == WORDS


def test_a_tool_is_called_and_its_result_answered(client: openai.OpenAI, provider: ChatProvider) -> None:
    provider.mood = "calls"
    first = client.chat.completions.create(model=MODEL, messages=QUESTION, tools=TOOLS)
    (call,) = first.choices[0].message.tool_calls or ()
    assert call.type == "function"
    assert call.function.arguments == '{"city": "Oslo"}'
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    talk = [*QUESTION, first.choices[0].message, result]
    second = client.chat.completions.create(model=MODEL, messages=talk, tools=TOOLS)
    assert second.choices[0].message.content == ANSWER
    assert provider.requests[-1]["messages"][-1] == result


def test_errors_are_those_that_the_sdk_knows(client: openai.OpenAI, provider: ChatProvider, stack: Stack) -> None:
    provider.mood = "refuses"
    with pytest.raises(openai.RateLimitError) as limited:
        client.chat.completions.create(model=MODEL, messages=QUESTION)
    assert (limited.value.code, limited.value.response.headers["retry-after"]) == ("rate_limit_exceeded", "7")
    provider.calm()
    provider.mood = "breaks"
    with pytest.raises(openai.APIError, match="broke its answer off"):
        list(client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True))
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{stack.url}/v1", api_key="wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="no chat user of that name"):
        client.chat.completions.create(model=MODEL, messages=QUESTION, user="boris")
    provider.calm()
    assert client.chat.completions.create(model=MODEL, messages=QUESTION).choices


def test_a_client_that_leaves_in_the_middle_ends_the_providers_work(
    client: openai.OpenAI, provider: ChatProvider, stack: Stack
) -> None:
    before = len(stored(stack))
    provider.goes_on.clear()
    stream = client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    wait_for(lambda: len(stored(stack)) == before + 2)
    provider.goes_on.set()
    assert provider.left.wait(PATIENCE)
    assert stored(stack)[-1] == WORDS[0].strip()
    assert client.chat.completions.create(model=MODEL, messages=QUESTION).choices


def test_the_sdk_for_node_works_as_well(client: openai.OpenAI, token: str, stack: Stack, tmp_path: Path) -> None:
    program, package = node(), fetched(PACKAGE, INTEGRITY)
    script = tmp_path / "talk.mjs"
    script.write_text(NODE.replace("PACKAGE", json.dumps(str(package / "index.mjs"))))
    done = subprocess.run(
        [program, str(script), f"{stack.url}/v1", token, MODEL], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert (got["text"], got["streamed"], got["models"]) == (ANSWER, ANSWER, [MODEL])
    assert got["refused"] == {"status": 401, "code": "unauthorized", "kind": "AuthenticationError"}
    assert "/runs/" in got["run"]
