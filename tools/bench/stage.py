"""What the benchmarks share: the made-up memory, a peer in a process of its own, and clients that call it."""

import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from asgiref.sync import sync_to_async

from memoryapp.engine.chat.client import HttpChat
from memoryapp.models import ChatUser, Run
from memoryapp.platform.embedded import children
from memoryapp.platform.llm.clients import http_client, offline_chat, offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import Clients, exempt_loaded, open_clients

TURN = 0.2
# A benchmark measures how late an answer is, so a late one must not be interrupted.
PATIENT: Mapping[str, float] = {"seconds": 600, "turn_seconds": 600}

# Longer than any bench.
KEPT_BACK = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class BenchStage:
    """``peer`` is the base address of a chat model that answers after ``TURN`` seconds."""

    owner: ChatUser
    peer: str
    queries: tuple[str, ...]

    def query(self, number: int) -> str:
        return self.queries[number % len(self.queries)]


@contextmanager
def peer(seconds: float = TURN) -> Iterator[str]:
    """Yields the base address of a peer that ends with this block, or with this process."""
    process = subprocess.Popen(
        (sys.executable, "-m", "tools.bench.peer", str(seconds)),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=children.end_with_parent(signal.SIGKILL),
    )
    with process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


@asynccontextmanager
async def clients_of(address: str) -> AsyncIterator[Clients]:
    """Yields clients as in a web process, with the peer as reranker, no enricher, and the embedded embedder."""
    async with open_clients() as clients, http_client() as http:
        exempt_loaded()
        yield replace(clients, chat=HttpChat(http, address, "", "peer"), enricher=None, embedder=offline_embedder())


@asynccontextmanager
async def embedded_clients() -> AsyncIterator[Clients]:
    """Yields clients that use only the embedded models."""
    async with open_clients() as clients:
        yield replace(clients, chat=offline_chat(), enricher=None, embedder=offline_embedder())


async def create_run(
    stage: BenchStage, number: int, strategy: str = "flash", parameters: Mapping[str, float] = PATIENT
) -> Run:
    """Creates a run for this bench alone: its time is in the future, because a site's worker executes old ones."""
    start = partial(lifecycle.start, stage.owner, stage.query(number), strategy=strategy, parameters=parameters)
    run = await sync_to_async(start)()
    await Run.objects.filter(pk=run.pk).aupdate(created_at=run.created_at + KEPT_BACK)
    return run


async def execute_run(run: UUID, clients: Clients) -> float:
    """Executes a run; returns the seconds from its claim to its end."""
    began = time.perf_counter()
    await lifecycle.execute(run, clients)
    return time.perf_counter() - began
