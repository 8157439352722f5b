"""Clients of others against the whole program: the SDKs of OpenAI and of MCP, MCP's inspector, and our Python
client."""

import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import httpx2
import openai
import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, Item, ListNamespacesOp, MatchCondition, PutOp
from langgraph.store.memory import InMemoryStore
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
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
from mnemoscope_client.langgraph import MnemoscopeStore

from tests.examples import text_of
from tests.peers.chat_provider import MODEL, WORDS, ChatProvider
from tests.support.clock import PATIENCE
from tests.support.node import fetched, installed, node
from tests.support.stack import CHECKOUT, Stack, free_port, wait_for

BLOCKS = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
TALK = [
    {"id": "m1", "role": "user", "ts": "2026-03-02T09:00:00Z", "text": "vLLM on our H100 dies with out of memory."},
    {"id": "m2", "role": "assistant", "ts": "2026-03-02T09:01:00Z", "text": "Lower gpu_memory_utilization."},
]
QUERY = "What did I do about vLLM on the H100?"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("client")
    # Two web processes: what an agent proposes to one, the other carries out.
    started = Stack(folder / "data", "--no-demo", API_RATE="1000000/m", WEB_CONCURRENCY="2")
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
    example(stack, token, 3)
    assert capsys.readouterr().out == "Likes honey cake with walnuts\n"


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
    assert 0 <= metadata["score"] <= 1
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


class Compared:
    """The store and LangGraph's own, given the same operations: both have to answer the same."""

    def __init__(self, store: MnemoscopeStore) -> None:
        self.stores: tuple[BaseStore, BaseStore] = store, InMemoryStore()

    def __getattr__(self, name: str) -> Any:
        def both(*arguments: Any, **options: Any) -> Any:
            mine, theirs = (_plain(getattr(each, name)(*arguments, **options)) for each in self.stores)
            assert mine == theirs, (name, arguments, options)
            return mine

        return both


def _plain(answer: Any) -> Any:
    """What both stores have to agree on: not the times, and without a query not the order."""
    if isinstance(answer, Item):
        return answer.namespace, answer.key, answer.value
    if isinstance(answer, list) and answer and isinstance(answer[0], Item):
        return sorted((_plain(item) for item in answer), key=repr)
    return answer


def test_the_store_does_what_that_of_langgraph_does(memory: Mnemoscope) -> None:
    store = MnemoscopeStore(memory)
    assert (store.get(("a",), "k"), store.search(("a",)), store.list_namespaces()) == (None, [], [])
    both = Compared(store)
    value = {"text": "Ü \U0001f370", "weight": 3, "deep": {"list": [1, 2.5, None, True, {"x": []}]}, "": ""}
    places: list[tuple[str, ...]] = [
        ("a", "b", "c"),
        ("a", "b", "d", "e"),
        ("a", "b", "d", "i"),
        ("a", "b", "f"),
        ("a", "c", "f"),
    ]
    for number, place in enumerate(places):
        both.put(place, "k", {**value, "weight": number})
        both.put(place, "other", {"color": "red" if number % 2 else "blue"}, index=["color"])
    assert both.get(places[0], "k")[2]["deep"] == value["deep"]
    both.put(places[0], "k", {"replaced": True})
    assert both.get(places[0], "k")[2] == {"replaced": True}
    both.get(places[0], "nothing")
    for prefix in ((), ("a",), ("a", "b", "d"), ("a", "b", "d", "e"), ("b",)):
        both.search(prefix, limit=100)
        both.search(prefix, filter={"color": "red"}, limit=100)
        both.search(prefix, filter={"weight": {"$ne": 2}}, limit=100)
        both.search(prefix, filter={"deep": {"list": [1, 2.5, None, True, {"x": []}]}}, limit=100)
    assert len(both.search(("a",), filter={"color": {"$eq": "blue"}}, limit=100)) == 3
    both.list_namespaces()
    both.list_namespaces(prefix=("a", "b"), max_depth=3)
    both.list_namespaces(suffix=("f",))
    both.list_namespaces(prefix=("*", "b"), suffix=("*", "i"))
    assert both.list_namespaces(limit=2, offset=1) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
    both.delete(places[0], "k")
    both.delete(places[0], "other")
    both.get(places[0], "k")
    assert both.list_namespaces(prefix=("a", "b", "d")) == places[1:3]
    mixed = [
        PutOp(("z",), "k", {"n": 1}),
        GetOp(("z",), "k"),
        PutOp(("z",), "k", {"n": 2}),
        # LangGraph's own also lists a namespace that was only asked for.
        ListNamespacesOp((MatchCondition("prefix", ("a",)),), max_depth=1),
    ]
    assert both.batch(mixed) == [None, None, None, [("a",)]]
    assert both.get(("z",), "k")[2] == {"n": 2}
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp(("a.b",), "k")])
    with pytest.raises(NotImplementedError):
        store.put(("a",), "k", {}, ttl=5)
    with pytest.raises(InvalidError, match="no database stores"):
        store.put(("a",), "k", {"text": "x\x00"})


async def test_a_graph_remembers_across_threads(memory: Mnemoscope, stack: Stack, token: str) -> None:
    """As the guide does: https://docs.langchain.com/oss/python/langgraph/add-memory."""

    async def learn(state: MessagesState, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store
        question = str(state["messages"][-1].content)
        if question.startswith("Remember: "):
            await runtime.store.aput(("notes",), str(len(question)), {"text": question.removeprefix("Remember: ")})
            return {"messages": [AIMessage("Noted.")]}
        found = await runtime.store.asearch(("notes",), query=question, limit=1)
        return {"messages": [AIMessage(found[0].value["text"] if found else "I don't know.")]}

    builder = StateGraph(MessagesState).add_node(learn).add_edge(START, "learn")

    async def say(store: BaseStore, text: str, thread: str) -> str:
        graph = builder.compile(store=store, checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": thread}}
        return str((await graph.ainvoke({"messages": [("user", text)]}, config))["messages"][-1].content)

    async with AsyncMnemoscope(stack.url, token, user=memory.user, timeout=PATIENCE) as waiting:
        store = MnemoscopeStore(async_client=waiting)
        assert await say(store, "Which dessert shall I bring?", "1") == "I don't know."
        assert await say(store, "Remember: She likes honey cake with walnuts", "1") == "Noted."
        assert await say(store, "Remember: The spare key lies under the stone", "1") == "Noted."
        assert await say(store, "Which dessert shall I bring?", "2") == "She likes honey cake with walnuts"
        with pytest.raises(MnemoscopeError, match="no client"):
            store.get(("notes",), "k")
    # Another process, without an event loop of its own, and in a thread of one.
    again = MnemoscopeStore(memory)
    assert await say(again, "Where is the key of the house?", "3") == "The spare key lies under the stone"
    assert len(await again.asearch(("notes",), limit=1_000)) == 2
    [scored, _other] = again.search(("notes",), query="Where is the key of the house?")
    assert 0 < (scored.score or 0) <= 1


def test_a_label_names_the_chat_user_of_a_store_for_many(memory: Mnemoscope) -> None:
    store = MnemoscopeStore(memory, user_at=1)
    store.batch([PutOp(("memories", name), "k", {"of": name}) for name in ("vera", "boris")])
    items = store.batch([GetOp(("memories", name), "k") for name in ("boris", "vera", "nobody")])
    assert [item and item.value for item in items] == [{"of": "boris"}, {"of": "vera"}, None]  # type: ignore[union-attr]
    assert [item.value for item in store.search(("memories", "vera"))] == [{"of": "vera"}]
    assert store.list_namespaces(prefix=("memories", "boris")) == [("memories", "boris")]
    for bad in (lambda: store.search(("memories",)), lambda: store.list_namespaces(prefix=("memories", "*"))):
        with pytest.raises(InvalidNamespaceError, match="names the chat user"):
            bad()


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


# Clients of the Model Context Protocol against the whole program: the official SDK, and the inspector's command.


INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
NAME = "Анна Ветрова"
READING = {"search_memory", "ask", "read_topic", "why_not", "list_edits", "propose_edit", "preview_edit"}
CHANGING = {"apply_edit", "undo_edit", "remember", "report_miss", "request_forgetting"}


@pytest.fixture(scope="module")
def tools_token(stack: Stack) -> str:
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
async def test_the_sdk_lists_and_calls_tools(stack: Stack, tools_token: str, path: str, mode: str) -> None:
    async with connected(stack, tools_token, path, mode) as client:
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


async def test_an_agent_remembers_changes_and_takes_back(stack: Stack, tools_token: str) -> None:
    async with connected(stack, tools_token, "/mcp") as client:

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
def theirs(stack: Stack, tools_token: str) -> str:
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


def test_the_inspector_lists_and_calls_tools(stack: Stack, tools_token: str, tmp_path: Path) -> None:
    node()
    command = installed(INSPECTOR) / "node_modules" / ".bin" / "mcp-inspector"
    address = [f"{stack.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {tools_token}"]

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


# The SDKs of OpenAI against the whole program: only the address and the key are other than usual.


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
NODE = text_of("openai_client.mjs")


@pytest.fixture(scope="module")
def provider() -> Iterator[ChatProvider]:
    made = ChatProvider()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def sdk_stack(provider: ChatProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("sdks")
    settings = {"LLM_BASE_URL": provider.url, "LLM_API_KEY": "sk-of-the-settings", "CHAT_STORE": "true"}
    settings["CHAT_SHARED_KEY"] = "true"
    started = Stack(folder / "data", "--no-demo", API_RATE="1000000/m", WEB_CONCURRENCY="1", **settings)
    yield started
    complaints = started.complaints()
    assert started.stop() == 0
    assert complaints == []


@pytest.fixture(scope="module")
def sdk_token(sdk_stack: Stack) -> str:
    of_all = sdk_stack.json("create_token", "importer", "--scope", "ingest")["token"]
    messages = [{"id": f"m{n}", "role": role, "text": EARLIER[n]} for n, role in enumerate(("user", "assistant"))]
    headers = {"Authorization": f"Bearer {of_all}"}
    httpx.post(
        f"{sdk_stack.url}/v1/messages", json={"user": "anna", "messages": messages}, headers=headers, timeout=PATIENCE
    )
    return str(sdk_stack.json("create_token", "assistant", "--scope", "recall,ingest", "--user", "anna")["token"])


@pytest.fixture
def client(sdk_stack: Stack, sdk_token: str, provider: ChatProvider) -> Iterator[openai.OpenAI]:
    provider.calm()
    with openai.OpenAI(base_url=f"{sdk_stack.url}/v1", api_key=sdk_token, max_retries=0, timeout=PATIENCE) as made:
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


def test_errors_are_those_that_the_sdk_knows(client: openai.OpenAI, provider: ChatProvider, sdk_stack: Stack) -> None:
    provider.mood = "refuses"
    with pytest.raises(openai.RateLimitError) as limited:
        client.chat.completions.create(model=MODEL, messages=QUESTION)
    assert (limited.value.code, limited.value.response.headers["retry-after"]) == ("rate_limit_exceeded", "7")
    provider.calm()
    provider.mood = "breaks"
    with pytest.raises(openai.APIError, match="broke its answer off"):
        list(client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True))
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{sdk_stack.url}/v1", api_key="wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="no chat user of that name"):
        client.chat.completions.create(model=MODEL, messages=QUESTION, user="boris")
    provider.calm()
    assert client.chat.completions.create(model=MODEL, messages=QUESTION).choices


def test_a_client_that_leaves_in_the_middle_ends_the_providers_work(
    client: openai.OpenAI, provider: ChatProvider, sdk_stack: Stack
) -> None:
    before = len(stored(sdk_stack))
    provider.goes_on.clear()
    stream = client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    wait_for(lambda: len(stored(sdk_stack)) == before + 2)
    provider.goes_on.set()
    assert provider.left.wait(PATIENCE)
    assert stored(sdk_stack)[-1] == WORDS[0].strip()
    assert client.chat.completions.create(model=MODEL, messages=QUESTION).choices


def test_the_sdk_for_node_works_as_well(
    client: openai.OpenAI, sdk_token: str, sdk_stack: Stack, tmp_path: Path
) -> None:
    program, package = node(), fetched(PACKAGE, INTEGRITY)
    script = tmp_path / "talk.mjs"
    script.write_text(NODE.replace("PACKAGE", json.dumps(str(package / "index.mjs"))))
    done = subprocess.run(
        [program, str(script), f"{sdk_stack.url}/v1", sdk_token, MODEL],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert (got["text"], got["streamed"], got["models"]) == (ANSWER, ANSWER, [MODEL])
    assert got["refused"] == {"status": 401, "code": "unauthorized", "kind": "AuthenticationError"}
    assert "/runs/" in got["run"]
