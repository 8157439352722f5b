"""A made-up tool of agents is one function, and the protocol lists, checks, guards and calls it."""

from collections.abc import Iterator
from typing import Annotated

import pytest
from pydantic import Field

from memoryapp.doors.api.access import Scope
from memoryapp.doors.mcp_server.tool import TOOLS, Arguments, Memory, ToolAnswer, tool
from memoryapp.models import ChatUser
from tests.doors.test_mcp import Agent, agent_of, memory

__all__ = ["memory"]

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


class Greeted(Arguments):
    words: Annotated[str, Field(max_length=5, description="what to say")]


@pytest.fixture
def greeting() -> Iterator[None]:
    @tool("Greet the memory", Scope.READ)
    async def greet(memory: Memory, asked: Greeted) -> ToolAnswer:
        """Says
        something to the memory."""
        return ToolAnswer(f"{asked.words} {memory.name}", {"said": asked.words})

    yield
    del TOOLS["greet"]


@pytest.fixture
async def agent(runner: object, memory: ChatUser, greeting: None) -> Agent:
    return await agent_of(memory, path="/mcp/anna")


async def test_it_is_listed_as_it_was_written(agent: Agent) -> None:
    listed = (await agent.tools())["greet"]
    assert (listed["title"], listed["description"]) == ("Greet the memory", "Says something to the memory.")
    assert listed["annotations"]["readOnlyHint"]
    assert listed["inputSchema"]["properties"]["words"]["description"] == "what to say"


async def test_it_answers_and_refuses(agent: Agent, memory: ChatUser) -> None:
    found = await agent.call("greet", words="Hello")
    assert (found["content"][0]["text"], found["structuredContent"]) == ("Hello anna", {"said": "Hello"})
    assert "words" in await agent.fault("greet", words="Good day")
    assert "scope read" in await (await agent_of(memory, scopes=("recall",))).fault("greet", words="Hello")
