"""How much time a stage of a run adds: the enricher to a rerank, and the embedded scorer to plain vector order."""

from collections.abc import AsyncIterator
from dataclasses import replace

from memoryapp.runs.clients import Clients
from tools.bench import stage as staged
from tools.bench.stage import BenchStage
from tools.bench.table import BenchRow, quantile


async def enricher_rows(stage: BenchStage, runs: int) -> AsyncIterator[BenchRow]:
    """Compares a rerank of three turns of the peer, the first of which rewrites the query, with one of two turns."""
    async with staged.clients_of(stage.peer) as clients:
        off = await _median(stage, replace(clients, enricher=None), runs)
        on = await _median(stage, clients, runs)
        yield BenchRow("rerank with enricher: p50", on, "without", off, "s")


async def scorer_rows(stage: BenchStage, runs: int) -> AsyncIterator[BenchRow]:
    """Compares a run in which the embedded scorer chooses with one that takes the nearest by vector."""
    async with staged.embedded_clients() as clients:
        plain = await _median(stage, clients, runs, "vector")
        chosen = await _median(stage, clients, runs)
        yield BenchRow("run with the embedded scorer: p50", chosen * 1e3, "run by vector order", plain * 1e3, "ms")


async def _median(stage: BenchStage, clients: Clients, runs: int, strategy: str = "flash") -> float:
    """Returns the median seconds of ``runs`` runs, one after another; one more before them warms up."""
    took = [await staged.one_run(stage, clients, number, strategy) for number in range(runs + 1)]
    return quantile(took[1:], 0.5)
