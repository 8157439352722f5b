"""Single reranks after waves of others that have timed out: they must work again."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from memoryapp.runs.clients import Clients
from tools.bench import stage as staged
from tools.bench.reranks import FLOOR, count_ended
from tools.bench.stage import PATIENT, TURN, BenchStage
from tools.bench.table import BenchRow, quantile

WAVES, AT_ONCE, LONE = 5, 80, 20
# The time ends within the peer's second turn, so every connection is interrupted in use.
HASTY = {"seconds": 1.5 * TURN, "turn_seconds": TURN * 1.2}


async def rows(stage: BenchStage) -> AsyncIterator[BenchRow]:
    """Measures how many of twenty fail after five waves of eighty that were interrupted, and how long one takes."""
    async with staged.clients_of(stage.peer) as clients:
        alone = replace(clients, enricher=None)
        for _ in range(WAVES):
            # If one fails, the others are ended before the clients are closed.
            async with asyncio.TaskGroup() as wave:
                for number in range(AT_ONCE):
                    wave.create_task(_run(stage, alone, number, HASTY))
        before = (await count_ended(stage)).chosen
        took = [await _run(stage, alone, number, PATIENT) for number in range(LONE)]
        failed = LONE - ((await count_ended(stage)).chosen - before)
    name = f"{LONE} lone reranks after {WAVES * AT_ONCE} timeouts"
    yield BenchRow(f"{name}: failed", failed, "runs", LONE, "runs")
    yield BenchRow(f"{name}: p50", quantile(took, 0.5), "two turns of the peer", FLOOR, "s")


async def _run(stage: BenchStage, clients: Clients, number: int, parameters: Mapping[str, float]) -> float:
    return await staged.execute_run((await staged.create_run(stage, number, parameters=parameters)).pk, clients)
