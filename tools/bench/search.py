"""Compares one search with the bare scan of the vectors in the database, which no exact search can undercut."""

import time
from collections.abc import AsyncIterator

import numpy as np
from pgvector import HalfVector

from memoryapp.engine.embeddings import Vectors
from memoryapp.runs.clients import Clients
from memoryapp.search import retrieval
from memoryapp.search.similarity import Question
from tools.bench import stage as staged
from tools.bench.stage import BenchStage
from tools.bench.table import BenchRow, quantile

SEARCHES = 20
SCAN = """
SELECT passage_id, vector <#> %s AS distance FROM memoryapp_passagevector
WHERE owner_id = %s AND profile_id = %s ORDER BY distance LIMIT 50
"""


async def rows(stage: BenchStage) -> AsyncIterator[BenchRow]:
    async with staged.embedded_clients() as clients:
        passages, searched, scanned = 0, [], []
        for number in range(SEARCHES):
            vector = _direction(number, clients.embedder.profile.dimensions)
            scanned.append(await _scan(stage, clients, vector))
            seconds, passages = await _search(stage, clients, vector, number)
            searched.append(seconds)
        name = f"search, {passages} passages: p50"
        yield BenchRow(
            name, quantile(searched, 0.5) * 1e3, "bare scan of the vectors", quantile(scanned, 0.5) * 1e3, "ms"
        )


def _direction(number: int, dimensions: int) -> Vectors:
    drawn = np.random.default_rng(number).standard_normal(dimensions)
    unit: Vectors = (drawn / np.linalg.norm(drawn)).astype(np.float32)
    return unit


async def _search(stage: BenchStage, clients: Clients, vector: Vectors, number: int) -> tuple[float, int]:
    profile = clients.embedder.profile
    async with clients.pool.connection() as connection:
        began = time.perf_counter()
        asked = Question(
            stage.owner.pk, stage.query(number), HalfVector(vector), clients.profile_id, profile.dimensions
        )
        found = await retrieval.search(connection, asked, threshold=profile.threshold, cache=clients.index_cache)
        return time.perf_counter() - began, found.passages


async def _scan(stage: BenchStage, clients: Clients, vector: Vectors) -> float:
    async with clients.pool.connection() as connection:
        began = time.perf_counter()
        await (await connection.execute(SCAN, [HalfVector(vector), stage.owner.pk, clients.profile_id])).fetchall()
        return time.perf_counter() - began
