"""A small memory to ask, and runs over it, executed to their end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.embeddings import EmbeddingError, Vectors
from memoryapp.engine.memory import Background
from memoryapp.memory import content
from memoryapp.models import ChatUser, Run
from memoryapp.platform import database
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import Clients, open_clients
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.support.clock import PATIENCE

QUERY = "vLLM H100 out of memory"
TOPICS = [
    ("vLLM on H100 crashes at start", ["vLLM on our H100 dies with out of memory", "Lower gpu_memory_utilization"]),
    ("Birthday cake for Masha", ["Which cake for a birthday of ten?", "A honey cake keeps for two days"]),
    ("Knee after the run", ["My meniscus hurts after ten kilometres", "Rest, ice, and see a doctor"]),
]


class Silent:
    """A chat model that never answers; ``asked`` is set when a request arrives."""

    model = "silent"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        self.asked.set()
        await asyncio.Event().wait()
        yield Reply("")


class Faulty:
    """A fault in the program's own code."""

    model = "faulty"

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        raise ZeroDivisionError
        yield Reply("")


class Speechless:
    """An embedding model that fails."""

    profile = offline_embedder().profile

    async def embed(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingError("The embedding model is out of reach.")


async def memory_of_three(name: str = "anna") -> ChatUser:
    """Makes a chat user with three topics, which search finds by words and by vectors."""

    def make() -> ChatUser:
        owner = ChatUser.objects.create(name=name)
        talk(owner, *TOPICS)
        return owner

    owner = await sync_to_async(make)()
    await embed_pending(offline_embedder())
    return owner


async def background_of(owner: int, **given: Any) -> Background:
    """Returns what a run of this chat user begins with."""
    asked = "SELECT %(owner)s::bigint AS owner_id, %(messages)s::jsonb AS messages"
    values = {**content.HOW_MUCH, "owner": owner, "messages": None if given.get("messages") is None else "[]"}
    async with await psycopg.AsyncConnection.connect(database.conninfo(), autocommit=True) as connection:
        rows = await connection.execute(f"SELECT {content.BACKGROUND} FROM ({asked}) AS asked", values)
        (found,) = await rows.fetchone() or ()
    return content.background(found, **given)


async def start(owner: ChatUser, query: str = QUERY, **given: Any) -> Run:
    return await sync_to_async(lifecycle.start)(owner, query, **given)


async def events_of(run: Run) -> list[Any]:
    return [item.event for item in await sync_to_async(followers.stored)(run.pk)]


async def executed(run: Run, **given: Any) -> list[Any]:
    """Executes the run to its end, with these in place of the program's clients; returns its events."""
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, replace(clients, **given))
    return await events_of(run)


@asynccontextmanager
async def unanswered(memory: ChatUser, clients: Clients) -> AsyncIterator[Run]:
    """Starts a run whose model does not answer; it is cancelled when the block ends."""
    run = await start(memory, parameters={"seconds": PATIENCE, "turn_seconds": PATIENCE})
    silent = Silent()
    task = asyncio.create_task(lifecycle.execute(run.pk, replace(clients, chat=silent)))
    await silent.asked.wait()
    yield run
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
