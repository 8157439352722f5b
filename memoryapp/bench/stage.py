"""What the benchmarks share: the made-up memory, a peer in a process of its own, and clients that speak to it."""

from __future__ import annotations

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

from memoryapp.clients import http_client, offline_chat, offline_embedder
from memoryapp.embedded import processes
from memoryapp.engine.chat.client import HttpChat
from memoryapp.models import ChatUser, Run
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import Clients, exempt_loaded, open_clients

TURN = 0.2
# A benchmark measures how late an answer is; it must not be cut off because it is.
PATIENT: Mapping[str, float] = {"seconds": 600, "turn_seconds": 600}

# Longer than any bench.
KEPT_BACK = timedelta(days=1)


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
    """The base address of a peer that ends with this block, or with this process."""
    process = subprocess.Popen(
        (sys.executable, "-m", "memoryapp.bench.peer", str(seconds)),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=processes.tied_to_parent(signal.SIGKILL),
    )
    with process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


@asynccontextmanager
async def speaking_to(address: str) -> AsyncIterator[Clients]:
    """Clients of which reranker and enricher are the peer, and the embedder the embedded one; as in a web process."""
    async with open_clients() as clients, http_client() as http:
        exempt_loaded()
        chat = HttpChat(http, address, "", "peer")
        yield replace(clients, chat=chat, enricher=chat, embedder=offline_embedder())


@asynccontextmanager
async def embedded() -> AsyncIterator[Clients]:
    """Clients that ask no model but the embedded ones."""
    async with open_clients() as clients:
        yield replace(clients, chat=offline_chat(), enricher=None, embedder=offline_embedder())


async def asked(
    stage: BenchStage, number: int, strategy: str = "flash", parameters: Mapping[str, float] = PATIENT
) -> Run:
    """A run that waits to be executed, by this bench alone: the worker of a running site takes over those that are old.

    The bench asks for many before the first begins.
    """
    start = partial(lifecycle.start, stage.owner, stage.query(number), strategy=strategy, parameters=parameters)
    run = await sync_to_async(start)()
    await Run.objects.filter(pk=run.pk).aupdate(created_at=run.created_at + KEPT_BACK)
    return run


async def executed(run: UUID, clients: Clients) -> float:
    """The seconds from the claim of a run to its end."""
    began = time.perf_counter()
    await lifecycle.execute(run, clients)
    return time.perf_counter() - began


async def one_run(stage: BenchStage, clients: Clients, number: int, strategy: str = "flash") -> float:
    """A run through its whole life, and the seconds from its claim to its end."""
    return await executed((await asked(stage, number, strategy)).pk, clients)
