"""The Python client against the whole program, by the examples of its README and beyond."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from mnemoscope_client import (
    AsyncMnemoscope,
    ForbiddenError,
    InvalidError,
    Mnemoscope,
    MnemoscopeError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
)
from mnemoscope_client.langchain import MnemoscopeRetriever

from tests.support.clock import PATIENCE
from tests.support.stack import CHECKOUT, Stack, free_port

BLOCKS = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
TALK = [
    {"id": "m1", "role": "user", "ts": "2026-03-02T09:00:00Z", "text": "vLLM on our H100 dies with out of memory."},
    {"id": "m2", "role": "assistant", "ts": "2026-03-02T09:01:00Z", "text": "Lower gpu_memory_utilization."},
]
QUERY = "What did I do about vLLM on the H100?"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("client")
    started = Stack(folder / "data", "--no-demo", API_RATE="1000000/m", WEB_CONCURRENCY="1")
    yield started
    complaints = started.complaints()
    assert started.stop() == 0
    assert complaints == []


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    """A token of every memory, with every scope."""
    return str(stack.json("create_token", "of-all", "--scope", "recall,ingest,read,curate,forget")["token"])


@pytest.fixture
def memory(stack: Stack, token: str, request: pytest.FixtureRequest) -> Iterator[Mnemoscope]:
    """The memory of a chat user of the test's own."""
    with Mnemoscope(stack.url, token, user=request.node.name, timeout=PATIENCE) as made:
        yield made


def example(stack: Stack, token: str, place: int) -> None:
    """Executes an example of the README, which names another address and another token."""
    code = BLOCKS.findall((CHECKOUT / "client/README.md").read_text(encoding="utf-8"))[place]
    assert "http://127.0.0.1:8000" in code
    here = code.replace("http://127.0.0.1:8000", stack.url).replace("mnemo_…", token)
    exec(compile(here, "README.md", "exec"), {"__name__": "__main__"})


def test_the_readme_s_examples(stack: Stack, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    example(stack, token, 0)
    waited = capsys.readouterr().out
    assert "Dasha baked a honey cake with walnuts" in waited
    assert f"{stack.url}/runs/" in waited
    assert "'Session:" in waited
    example(stack, token, 1)
    awaited = capsys.readouterr().out
    assert "1 run_started" in awaited
    assert "run_finished\npassages" in awaited
    assert "Dasha baked a honey cake with walnuts" in awaited
    example(stack, token, 2)
    assert "user (" in (prompt := capsys.readouterr().out)
    assert "Dasha baked a honey cake with walnuts for my birthday.\nassistant (" in prompt


def test_what_is_stored_is_recalled_watched_and_forgotten(memory: Mnemoscope) -> None:
    assert (memory.remember(TALK).added, memory.remember(TALK).skipped) == (2, 2)
    [head] = memory.close_sessions()
    assert [topic.id for topic in memory.topics()] == [head.id]
    found = memory.recall(QUERY, strategy="vector", parameters={"max_topics": 3}, include=["messages"])
    [chosen] = found.topics
    assert [message.id for message in chosen.messages or ()] == ["m1", "m2"]
    assert memory.run(found.run).topics == tuple(each.model_copy(update={"messages": None}) for each in found.topics)
    events = list(memory.watch(found.run))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert list(memory.watch(found.run, after=2)) == events[2:]
    assert memory.answered(found.run, "Lower gpu_memory_utilization, as before.").used == (head.id,)
    assert memory.why_not(found.run, text="the weather in Oslo").stage == "unknown"
    assert memory.decide(head.id, "pinned", reason="of use").recall == "pinned"
    assert memory.recall("The weather?").topics[0].pinned
    assert memory.forget("m2").counts["memoryapp_message"] == 1
    [topic] = memory.topic(head.id).topics
    assert [message.id for message in topic.messages] == ["m1"]


async def test_a_chain_answers_from_what_the_retriever_found(memory: Mnemoscope, stack: Stack, token: str) -> None:
    """As the guide to custom retrievers tests one: https://python.langchain.com/docs/how_to/custom_retriever/."""
    memory.remember([*TALK, {"id": "m3", "role": "user", "ts": "2026-03-02T10:00:00Z", "text": "Which tea is green?"}])
    [head] = memory.close_sessions()
    retriever = MnemoscopeRetriever(client=memory, strategy="vector", parameters={"max_topics": 3})
    [document] = retriever.invoke(QUERY)
    assert "vLLM on our H100 dies with out of memory." in document.page_content
    metadata = document.metadata
    assert (document.id, metadata["topic"], metadata["messages"][:2], metadata["rank"]) == (
        head.id,
        head.id,
        ["m1", "m2"],
        1,
    )
    assert 0 < metadata["score"] <= 1
    assert metadata["url"] == memory.run(metadata["run"]).url
    assert json.loads(document.model_dump_json())["metadata"] == metadata
    heard: list[str] = []

    def reply(prompt: PromptValue) -> AIMessage:
        heard.append(prompt.to_string())
        return AIMessage("Lower gpu_memory_utilization.")

    prompt = ChatPromptTemplate.from_template("{memory}\n{question}")
    chain: Any = {"memory": retriever, "question": RunnablePassthrough()} | prompt | reply | StrOutputParser()
    assert chain.invoke(QUERY) == await chain.ainvoke(QUERY) == "Lower gpu_memory_utilization."
    assert ["vLLM on our H100 dies with out of memory" in prompt for prompt in heard] == [True, True]
    async with AsyncMnemoscope(stack.url, token, timeout=PATIENCE) as waiting:
        awaited = MnemoscopeRetriever(async_client=waiting, user=memory.user, strategy="vector")
        assert [each.id for each in await awaited.ainvoke(QUERY)] == [head.id]
        with pytest.raises(NotFoundError):
            await awaited.ainvoke(QUERY, user="nobody")
        with pytest.raises(MnemoscopeError, match="no client"):
            awaited.invoke(QUERY)


async def test_the_agent_answers_with_quotations(stack: Stack, token: str) -> None:
    async with AsyncMnemoscope(stack.url, token, user="agent", timeout=PATIENCE) as memory:
        await memory.remember(TALK)
        answer = await memory.ask(QUERY, agent=True)
        assert (answer.outcome, answer.citations[0].message) == ("passages", "m1")
        left = memory.recall_events(QUERY)
        first = await anext(left)
        # The program leaves; the run goes on, and can be watched from there.
        await left.aclose()
        rest = [event async for event in memory.watch(first.run, after=first.seq)]
        assert [event.seq for event in rest] == list(range(2, rest[-1].seq + 1))


def test_refusals_of_the_real_program(stack: Stack, token: str, memory: Mnemoscope) -> None:
    with Mnemoscope(stack.url, "mnemo_wrong", user="anna") as stranger, pytest.raises(UnauthorizedError):
        stranger.recall(QUERY)
    with pytest.raises(NotFoundError, match="no chat user of that name"):
        memory.recall(QUERY)
    reads = stack.json("create_token", "reader", "--scope", "read")["token"]
    with Mnemoscope(stack.url, reads, user="anna") as reader, pytest.raises(ForbiddenError, match="scope recall"):
        list(reader.recall_events(QUERY))
    with pytest.raises(InvalidError) as invalid:
        memory.remember({"role": "somebody", "text": "Hello"})
    assert invalid.value.details["rejected"][0]["index"] == 0
    with Mnemoscope(f"http://127.0.0.1:{free_port()}", token, user="anna", retries=0) as nobody:
        with pytest.raises(UnreachableError):
            nobody.remember("Hello")
        with pytest.raises(UnreachableError):
            list(nobody.recall_events("Hello"))
    assert memory.remember("Hello").added == 1
