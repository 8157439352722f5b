"""Runs against a slow peer: how much time the program adds to the waiting.

The number of reranks under way is constant: as one ends, the next begins. The first ones begin one after another
within one floor, because people do not all ask in the same millisecond. The floor is two turns of the peer, which no
rerank can undercut; a bare client that only takes two such turns is measured as well. The runs are created before the
clock starts, because in use another process or thread creates them.
"""

import asyncio
import multiprocessing
import os
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import NamedTuple
from uuid import UUID

import django
from asgiref.sync import async_to_sync
from django.conf import settings

from memoryapp.models import Run, RunEvent
from memoryapp.platform.llm.clients import http_client
from memoryapp.runs.clients import Clients
from tools.bench.stage import PATIENT, TURN, BenchStage, clients_of, create_run, embedded_clients, execute_run
from tools.bench.table import BenchRow, quantile

FLOOR = 2 * TURN
BARE = {"model": "peer", "messages": [{"role": "user", "content": "[Topic:1] (0.50) " * 500}], "tools": []}
WAVES, TIMED_OUT_AT_ONCE, LONE = 5, 80, 20
# The time ends within the peer's second turn, so every connection is interrupted in use.
HASTY = {"seconds": 1.5 * TURN, "turn_seconds": TURN * 1.2}
_WARM = 10


class Load(NamedTuple):
    """``at_once`` runs at a time until ``runs`` are done, in each of ``waves`` waves."""

    at_once: int
    runs: int
    waves: int = 1


class Measured(NamedTuple):
    """What the waves of a load took: seconds, and in ``resident`` the memory after each wave, in MB."""

    latencies: Sequence[float]
    wall: float
    processor: float
    resident: Sequence[float]


async def rerank_rows(stage: BenchStage, loads: Sequence[Load]) -> AsyncIterator[BenchRow]:
    """Yields for each load its latencies, failures, processor time and events; for several waves the memory too."""
    async with clients_of(stage.peer) as clients:
        await _one_run(stage, clients, 0)
        for load in loads:
            name, bare = f"reranks, {load.at_once} at once", await _bare(stage.peer, load)
            chosen, stored = await _chosen(stage), await _events(stage)
            asked = [await create_run(stage, number) for number in range(load.runs * load.waves)]
            took = await _measure([run.pk for run in asked], clients, load)
            chosen, stored = await _chosen(stage) - chosen, await _events(stage) - stored
            n = len(took.latencies)
            for row in _latencies(name, took.latencies):
                yield row
            name_of_bare = f"bare client, {load.at_once} at once: p50"
            yield BenchRow(name_of_bare, quantile(bare, 0.5), "two turns of the peer", FLOOR, "s")
            yield BenchRow(f"{name}: failed", n - chosen, "runs", n, "runs")
            busy = took.processor / n * 1e3
            yield BenchRow(f"{name}: processor", busy, "time a run, all cores", took.wall / n * 1e3, "ms")
            allowed = stored / n * load.at_once / FLOOR
            yield BenchRow(f"{name}: events", stored / took.wall, "what the floor would allow", allowed, "/s")
            if load.waves > 1:
                first, *_between, last = took.resident
                yield BenchRow(f"{name}: memory, wave {load.waves}", last, "after the first wave", first, "MB")


def _latencies(name: str, took: Sequence[float]) -> Iterator[BenchRow]:
    for label, share in (("p50", 0.5), ("p95", 0.95)):
        yield BenchRow(f"{name}: {label}", quantile(took, share), "two turns of the peer", FLOOR, "s")


async def _chosen(stage: BenchStage) -> int:
    """Returns how many runs the model has ended with a selection."""
    ended = Run.objects.of(stage.owner).filter(state=Run.State.FINISHED, fallback="", selected_count__gt=0)
    return await ended.acount()


async def _events(stage: BenchStage) -> int:
    return await RunEvent.objects.filter(owner=stage.owner).acount()


async def _measure(runs: Sequence[UUID], clients: Clients, load: Load) -> Measured:
    return await _measured(lambda number: execute_run(runs[number], clients), load)


async def _measured(act: Callable[[int], Awaitable[float]], load: Load) -> Measured:
    latencies: list[float] = []
    resident: list[float] = []

    async def work(numbers: Iterator[int], after: float) -> None:
        await asyncio.sleep(after)
        for number in numbers:
            latencies.append(await act(number))

    wall, processor = time.perf_counter(), time.process_time()
    for wave in range(load.waves):
        numbers = iter(range(wave * load.runs, (wave + 1) * load.runs))
        await asyncio.gather(*(work(numbers, FLOOR * place / load.at_once) for place in range(load.at_once)))
        resident.append(_resident())
    return Measured(latencies, time.perf_counter() - wall, time.process_time() - processor, resident)


async def _bare(address: str, load: Load) -> Sequence[float]:
    async with http_client() as http:

        async def two_turns(_number: int) -> float:
            began = time.perf_counter()
            for _ in range(2):
                await http.post(f"{address}/chat/completions", json=BARE, timeout=60)
            return time.perf_counter() - began

        return (await _measured(two_turns, Load(load.at_once, load.runs))).latencies


def _resident() -> float:
    """Returns the memory of this process in MB; its peak if the system does not report the current value."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


# The same load on as many processes as ``up`` starts for the web. One process computes on one core, so these rows show
# what ``up`` achieves, and those of a single process what one core achieves.


def shared_rows(stage: BenchStage, load: Load) -> Iterator[BenchRow]:
    """Yields latencies and failures of the load; nothing when there is only one process."""
    processes = settings.WEB_CONCURRENCY
    if processes < 2:
        return
    create, chosen = async_to_sync(create_run), async_to_sync(_chosen)
    asked = [create(stage, number).pk for number in range(load.runs + processes * _WARM)]
    before = chosen(stage)
    # A forked process would share connections and threads that are in use.
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(processes, context, django.setup) as workers:
        ready, at_once = manager.Barrier(processes), load.at_once // processes
        shares = [asked[place::processes] for place in range(processes)]
        took = [workers.submit(_execute, stage.peer, share, at_once, ready) for share in shares]
        latencies = [seconds for taken in took for seconds in taken.result()]
    name = f"reranks, {load.at_once} at once in {processes} processes"
    yield from _latencies(name, latencies)
    yield BenchRow(f"{name}: failed", len(asked) - (chosen(stage) - before), "runs", len(asked), "runs")


def _execute(peer: str, runs: Sequence[UUID], at_once: int, ready: Barrier) -> Sequence[float]:
    """Returns the seconds of each run except the first ones, which warm up."""

    async def execute() -> Sequence[float]:
        async with clients_of(peer) as clients:
            for run in runs[:_WARM]:
                await execute_run(run, clients)
            await asyncio.to_thread(ready.wait)
            return (await _measure(runs[_WARM:], clients, Load(at_once, len(runs) - _WARM))).latencies

    return asyncio.run(execute())


# Single reranks after waves of others that have timed out: they must work again.


async def timeout_rows(stage: BenchStage) -> AsyncIterator[BenchRow]:
    """Measures how many of twenty fail after five waves of eighty that were interrupted, and how long one takes."""
    async with clients_of(stage.peer) as clients:
        for _ in range(WAVES):
            # If one fails, the others are ended before the clients are closed.
            async with asyncio.TaskGroup() as wave:
                for number in range(TIMED_OUT_AT_ONCE):
                    wave.create_task(_one_run(stage, clients, number, parameters=HASTY))
        before = await _chosen(stage)
        took = [await _one_run(stage, clients, number) for number in range(LONE)]
        failed = LONE - (await _chosen(stage) - before)
    name = f"{LONE} lone reranks after {WAVES * TIMED_OUT_AT_ONCE} timeouts"
    yield BenchRow(f"{name}: failed", failed, "runs", LONE, "runs")
    yield BenchRow(f"{name}: p50", quantile(took, 0.5), "two turns of the peer", FLOOR, "s")


# How much time a stage of a run adds: the enricher to a rerank, and the embedded scorer to plain vector order.


async def stage_rows(stage: BenchStage, runs: int) -> AsyncIterator[BenchRow]:
    """Compares a rerank of three turns of the peer, the first of which rewrites the query, with one of two turns, and a
    run in which the embedded scorer chooses with one that takes the nearest by vector."""
    async with clients_of(stage.peer) as clients:
        off = await _median(stage, clients, runs)
        on = await _median(stage, replace(clients, enricher=clients.chat), runs)
        yield BenchRow("rerank with enricher: p50", on, "without", off, "s")
    async with embedded_clients() as clients:
        plain = await _median(stage, clients, runs, "vector")
        chosen = await _median(stage, clients, runs)
        yield BenchRow("run with the embedded scorer: p50", chosen * 1e3, "run by vector order", plain * 1e3, "ms")


async def _median(stage: BenchStage, clients: Clients, runs: int, strategy: str = "flash") -> float:
    """Returns the median seconds of ``runs`` runs, one after another; one more before them warms up."""
    took = [await _one_run(stage, clients, number, strategy) for number in range(runs + 1)]
    return quantile(took[1:], 0.5)


async def _one_run(
    stage: BenchStage, clients: Clients, number: int, strategy: str = "flash", parameters: Mapping[str, float] = PATIENT
) -> float:
    """Creates and executes a run; returns the seconds from its claim to its end."""
    return await execute_run((await create_run(stage, number, strategy, parameters)).pk, clients)
