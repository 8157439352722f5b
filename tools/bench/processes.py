"""The same load on as many processes as ``up`` starts for the web.

One process computes on one core. So these rows show what ``up`` achieves, and the rows of a single process what one
core achieves.
"""

import asyncio
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from threading import Barrier
from uuid import UUID

import django
from asgiref.sync import async_to_sync
from django.conf import settings

from tools.bench import stage as staged
from tools.bench.reranks import FLOOR, Load, count_ended, measure
from tools.bench.stage import BenchStage
from tools.bench.table import BenchRow, quantile

_WARM = 10


def rows(stage: BenchStage, load: Load) -> Iterator[BenchRow]:
    """Yields latencies and failures of the load; nothing when there is only one process."""
    processes = settings.WEB_CONCURRENCY
    if processes < 2:
        return
    asked = async_to_sync(_create_runs)(stage, load.runs + processes * _WARM)
    before = async_to_sync(count_ended)(stage).chosen
    latencies = _latencies(stage, load, [asked[place::processes] for place in range(processes)])
    failed = len(asked) - (async_to_sync(count_ended)(stage).chosen - before)
    name = f"reranks, {load.at_once} at once in {processes} processes"
    for label, share in (("p50", 0.5), ("p95", 0.95)):
        yield BenchRow(f"{name}: {label}", quantile(latencies, share), "two turns of the peer", FLOOR, "s")
    yield BenchRow(f"{name}: failed", failed, "runs", len(asked), "runs")


async def _create_runs(stage: BenchStage, count: int) -> list[UUID]:
    return [(await staged.create_run(stage, number)).pk for number in range(count)]


def _latencies(stage: BenchStage, load: Load, shares: Sequence[Sequence[UUID]]) -> list[float]:
    # A forked process would share connections and threads that are in use.
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(len(shares), context, django.setup) as workers:
        ready, at_once = manager.Barrier(len(shares)), load.at_once // len(shares)
        took = [workers.submit(_work, stage.peer, share, at_once, ready) for share in shares]
        return [seconds for taken in took for seconds in taken.result()]


def _work(peer: str, runs: Sequence[UUID], at_once: int, ready: Barrier) -> tuple[float, ...]:
    return asyncio.run(_execute(peer, runs, at_once, ready))


async def _execute(peer: str, runs: Sequence[UUID], at_once: int, ready: Barrier) -> tuple[float, ...]:
    """Returns the seconds of each run except the first ones, which warm up."""
    async with staged.clients_of(peer) as clients:
        alone = replace(clients, enricher=None)
        for run in runs[:_WARM]:
            await staged.execute_run(run, alone)
        await asyncio.to_thread(ready.wait)
        rest = runs[_WARM:]
        took = await measure(lambda number: staged.execute_run(rest[number], alone), Load(at_once, len(rest)))
    return took.latencies
