"""A small memory, whole runs over it against a server, and the servers that need no model."""

import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.events import Event, RunFinished
from memoryapp.models import ChatUser
from memoryapp.platform.llm import clients
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.peers.serving import Server, serving
from tests.support.clock import PATIENCE
from tests.support.node import fetched, node

PACKAGE = "@copilotkit/aimock@1.43.0"
INTEGRITY = "sha512-V8D8cjSMtAR4rHaD2ulp3DR/ZguXQjDNOqwKDNvjb/OJL/KR1I0SDf5xpRCd+TYKjhmf9fM8Xpg3QBKPmV9Kmw=="
QUERY = "vLLM H100 out of memory"
TOPICS = [
    ("vLLM on H100 crashes at start", ["vLLM on our H100 dies with out of memory", "Lower gpu_memory_utilization"]),
    ("A second H100", ["Does the H100 pay off against two A100?", "For vLLM with one large model it does"]),
    ("Birthday cake for Masha", ["Which cake for a birthday of ten?", "A honey cake keeps for two days"]),
]


@dataclass(frozen=True)
class Memory:
    owner: ChatUser
    topics: tuple[int, ...]


@dataclass(frozen=True)
class StoredRun:
    """A finished run: its events, of which the last is ``finished``."""

    events: list[Event]

    @property
    def finished(self) -> RunFinished:
        *_, last = self.events
        assert isinstance(last, RunFinished)
        assert sum(isinstance(event, RunFinished) for event in self.events) == 1
        return last

    @property
    def chosen(self) -> list[str]:
        return [selected.id for selected in self.finished.selected]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


Ask = Callable[..., Awaitable[StoredRun]]


@pytest.fixture(scope="package")
def aimock_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program, folder = node(), tmp_path_factory.mktemp("aimock")
    package = fetched(PACKAGE, INTEGRITY)
    (folder / "none.json").write_text('{"fixtures": [{"match": {"userMessage": "none"}, "response": {"content": ""}}]}')
    command = [program, str(package / "dist/cli.js"), "--port", "PORT", "--fixtures", "none.json"]
    with serving(command, folder, health="/health") as server:
        yield server


@pytest.fixture
def aimock(aimock_process: Server) -> Server:
    aimock_process.post("/__aimock/reset")
    return aimock_process


@pytest.fixture(scope="package")
def llmock_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("llmock")
    # Slow, because otherwise a stream ends before the server sees that the client has disconnected.
    pace = ["--stream-chunk-delay-ms", "10"]
    command = [sys.executable, "-c", "from llmock.cli import app; app()", "serve", "--port", "PORT", *pace]
    with serving(command, tmp_path_factory.mktemp("llmock"), health="/health") as server:
        yield server


@pytest.fixture
def llmock(llmock_process: Server) -> Server:
    llmock_process.post("/_llmock/reset")
    return llmock_process


@pytest.fixture
async def memory(transactional_db: None, thread_closed: None) -> Memory:
    def make() -> Memory:
        anna = ChatUser.objects.create(name="anna")
        return Memory(anna, tuple(topic.pk for topic in talk(anna, *TOPICS)))

    made = await sync_to_async(make)()
    await embed_pending(clients.offline_embedder())
    return made


@pytest.fixture
def ask(memory: Memory, settings: Any) -> Ask:
    """Runs a whole recall against the endpoint at ``base_url``; what was learnt about endpoints is deleted before."""
    clients._learnt.cache_clear()

    async def whole(base_url: str, *, stream: bool = True, model: str = "gpt-4o", **parameters: Any) -> StoredRun:
        settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_STREAM = base_url, "key", stream
        settings.RERANKER_MODEL = settings.ENRICHER_MODEL = model
        patient = {"seconds": 2 * PATIENCE, "turn_seconds": PATIENCE, **parameters}
        run = await sync_to_async(lifecycle.start)(memory.owner, QUERY, parameters=patient)
        async with open_clients() as opened:
            await lifecycle.execute(run.pk, opened)
        return StoredRun([item.event for item in await sync_to_async(followers.stored)(run.pk)])

    return whole


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the server's output to the report of a failed test."""
    report = yield
    for name, value in getattr(item, "funcargs", {}).items():
        if report.failed and isinstance(value, Server):
            report.sections.append((f"{name} said", value.log.read_text()[-4_000:]))
    return report
