"""Clients of the Model Context Protocol against the whole program: the official SDK, and the inspector's command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.clock import PATIENCE
from tests.support.node import installed, node
from tests.support.stack import Stack

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
NAME = "Анна Ветрова"
READING = {"search_memory", "ask", "read_topic", "why_not", "list_edits", "propose_edit", "preview_edit"}
CHANGING = {"apply_edit", "undo_edit", "remember", "request_forgetting"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    started = Stack(tmp_path_factory.mktemp("mcp") / "data", "--no-demo", WEB_CONCURRENCY="2", API_RATE="1000000/m")
    yield started
    complaints = started.complaints()
    assert started.stop() == 0
    assert complaints == []


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    """A token for one chat user, whose memory has two topics."""
    of_all = stack.json("create_token", "importer", "--scope", "ingest")["token"]
    talk = [
        {"id": f"m{n}", "role": role, "text": text, "ts": f"2026-03-0{1 + n // 2}T10:0{n}:00Z"}
        for n, (role, text) in enumerate(
            [
                ("user", "vLLM on our H100 dies with out of memory."),
                ("assistant", "Lower gpu_memory_utilization."),
                ("user", "Which cake for Masha?"),
                ("assistant", "A honey cake keeps for two days."),
            ]
        )
    ]
    with httpx.Client(base_url=stack.url, timeout=PATIENCE, headers={"Authorization": f"Bearer {of_all}"}) as importer:
        importer.post("/v1/messages", json={"user": NAME, "messages": talk}).raise_for_status()
        importer.post("/v1/sessions/close", json={"user": NAME}).raise_for_status()
    scopes = "recall,ingest,read,curate"
    return str(stack.json("create_token", "agent", "--scope", scopes, "--user", NAME)["token"])


@asynccontextmanager
async def connected(stack: Stack, token: str, path: str, mode: Any = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{stack.url}{path}", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("path", ["/mcp", f"/mcp/{quote(NAME)}"])
async def test_the_sdk_lists_and_calls_tools(stack: Stack, token: str, path: str, mode: str) -> None:
    async with connected(stack, token, path, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint} == READING
        assert tools.keys() == READING | CHANGING
        found = await client.call_tool("search_memory", {"query": "vLLM out of memory"})
        assert not found.is_error
        values: Any = found.structured_content
        assert values["topics"][0]["messages"] == ["m0", "m1"]
        assert values["url"].startswith(f"{stack.url}/runs/")
        refused = await client.call_tool("read_topic", {"topic": "Topic:999"})
        assert refused.is_error


async def test_an_agent_remembers_changes_and_takes_back(stack: Stack, token: str) -> None:
    async with connected(stack, token, "/mcp") as client:

        async def call(name: str, **arguments: Any) -> Any:
            found = await client.call_tool(name, arguments)
            assert not found.is_error, found
            return found.structured_content

        assert (await call("remember", text="The oboe is in the hall."))["added"] == 1
        run = await call("search_memory", query="vLLM", strategy="vector", max_topics=1)
        topic = run["topics"][0]["id"]
        assert (await call("why_not", run=run["run"], text="honey cake"))["sentence"]
        proposed = await call("propose_edit", kind="rewrite", topic=topic, summary="vLLM and its memory")
        made = await call("apply_edit", token=proposed["token"])
        assert made["topics"][0]["summary"] == "vLLM and its memory"
        await call("undo_edit", edit=made["edit"])
        edits = (await call("list_edits", after=made["edit"] - 1))["edits"]
        assert [each["stands"] for each in edits] == [False, True]


@pytest.fixture
def theirs(stack: Stack, token: str) -> str:
    """A token for another chat user."""
    of_all = stack.json("create_token", "importer", "--scope", "ingest")["token"]
    headers = {"Authorization": f"Bearer {of_all}"}
    spoken = {"user": "boris", "messages": [{"role": "user", "text": "The clarinet is mine."}]}
    httpx.post(f"{stack.url}/v1/messages", json=spoken, headers=headers, timeout=PATIENCE).raise_for_status()
    return str(stack.json("create_token", "other", "--scope", "recall,read", "--user", "boris")["token"])


async def test_a_token_of_another_memory_opens_nothing(stack: Stack, theirs: str) -> None:
    async with connected(stack, theirs, "/mcp") as client:
        found = await client.call_tool("search_memory", {"query": "vLLM honey cake", "user": NAME})
        assert found.is_error
    with pytest.raises(Exception, match=r".") as refused:
        async with connected(stack, theirs, f"/mcp/{quote(NAME)}") as client:
            await client.list_tools()
    assert "clarinet" not in str(refused.value)


def test_the_inspector_lists_and_calls_tools(stack: Stack, token: str, tmp_path: Path) -> None:
    node()
    command = installed(INSPECTOR) / "node_modules" / ".bin" / "mcp-inspector"
    address = [f"{stack.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token}"]

    def inspect(*arguments: str) -> Any:
        done = subprocess.run(
            [str(command), "--cli", *address, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=tmp_path,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    assert {tool["name"] for tool in inspect("--method", "tools/list")["tools"]} == READING | CHANGING
    found = inspect("--method", "tools/call", "--tool-name", "search_memory", "--tool-arg", "query=honey cake")
    assert "honey cake" in found["content"][0]["text"]
