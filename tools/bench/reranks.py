"""Many reranks at once against a slow peer: how much time the program adds to the waiting.

The number of reranks under way is constant: as one ends, the next begins. The first ones begin one after another
within one floor, because people do not all ask in the same millisecond. The floor is two turns of the peer, which no
rerank can undercut; a bare client that only takes two such turns is measured as well. The runs are created before the
clock starts, because in use another process or thread creates them.
"""

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asgiref.sync import sync_to_async

from memoryapp.models import Run, RunEvent
from memoryapp.platform.llm.clients import http_client
from memoryapp.runs.clients import Clients
from tools.bench import stage as staged
from tools.bench.stage import TURN, BenchStage
from tools.bench.table import BenchRow, quantile

FLOOR = 2 * TURN
BARE = {"model": "peer", "messages": [{"role": "user", "content": "[Topic:1] (0.50) " * 500}], "tools": []}


@dataclass(frozen=True, slots=True)
class Load:
    """``at_once`` runs at a time until ``runs`` are done, in each of ``waves`` waves."""

    at_once: int
    runs: int
    waves: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """What the waves of a load took: seconds, and in ``resident`` the memory after each wave, in MB."""

    latencies: tuple[float, ...]
    wall: float
    processor: float
    resident: tuple[float, ...]


async def rows(stage: BenchStage, loads: Sequence[Load]) -> AsyncIterator[BenchRow]:
    """Yields for each load its latencies, failures, processor time and events; for several waves the memory too."""
    async with staged.clients_of(stage.peer) as clients:
        alone = replace(clients, enricher=None)
        await staged.one_run(stage, alone, 0)
        for load in loads:
            async for row in _load_rows(stage, alone, load):
                yield row


async def _load_rows(stage: BenchStage, clients: Clients, load: Load) -> AsyncIterator[BenchRow]:
    name = f"reranks, {load.at_once} at once"
    bare = await _bare(stage.peer, load)
    before = await count_ended(stage)
    asked = [await staged.create_run(stage, number) for number in range(load.runs * load.waves)]
    took = await measure(lambda number: staged.execute_run(asked[number].pk, clients), load)
    ended = await count_ended(stage)
    n = len(took.latencies)
    for label, share in (("p50", 0.5), ("p95", 0.95)):
        yield BenchRow(f"{name}: {label}", quantile(took.latencies, share), "two turns of the peer", FLOOR, "s")
    yield BenchRow(
        f"bare client, {load.at_once} at once: p50", quantile(bare, 0.5), "two turns of the peer", FLOOR, "s"
    )
    yield BenchRow(f"{name}: failed", n - (ended.chosen - before.chosen), "runs", n, "runs")
    yield BenchRow(f"{name}: processor", took.processor / n * 1e3, "time a run, all cores", took.wall / n * 1e3, "ms")
    events = ended.events - before.events
    yield BenchRow(
        f"{name}: events", events / took.wall, "what the floor would allow", events / n * load.at_once / FLOOR, "/s"
    )
    if load.waves > 1:
        first, last = took.resident[0], took.resident[-1]
        yield BenchRow(f"{name}: memory, wave {load.waves}", last, "after the first wave", first, "MB")


@dataclass(frozen=True, slots=True)
class Counts:
    chosen: int
    events: int


async def count_ended(stage: BenchStage) -> Counts:
    """Returns how many runs the model has ended with a selection, and how many events are stored."""
    chosen = Run.objects.of(stage.owner).filter(state=Run.State.FINISHED, fallback="", selected_count__gt=0)
    events = RunEvent.objects.filter(owner=stage.owner)
    return Counts(await sync_to_async(chosen.count)(), await sync_to_async(events.count)())


async def measure(act: Callable[[int], Awaitable[float]], load: Load) -> Measured:
    latencies: list[float] = []
    resident: list[float] = []
    wall, processor = time.perf_counter(), time.process_time()
    for wave in range(load.waves):
        numbers = iter(range(wave * load.runs, (wave + 1) * load.runs))
        late = (FLOOR * place / load.at_once for place in range(load.at_once))
        await asyncio.gather(*(_work(act, numbers, latencies, after) for after in late))
        resident.append(_resident())
    return Measured(tuple(latencies), time.perf_counter() - wall, time.process_time() - processor, tuple(resident))


async def _work(
    act: Callable[[int], Awaitable[float]], numbers: Iterator[int], latencies: list[float], after: float
) -> None:
    await asyncio.sleep(after)
    for number in numbers:
        latencies.append(await act(number))


async def _bare(address: str, load: Load) -> Sequence[float]:
    async with http_client() as http:

        async def two_turns(_number: int) -> float:
            began = time.perf_counter()
            for _ in range(2):
                await http.post(f"{address}/chat/completions", json=BARE, timeout=60)
            return time.perf_counter() - began

        return (await measure(two_turns, Load(load.at_once, load.runs))).latencies


def _resident() -> float:
    """Returns the memory of this process in MB; its peak if the system does not report the current value."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
