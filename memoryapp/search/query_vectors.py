"""The vectors of a run's query, stored with the run: the preview of an edit uses them, so that it needs no model."""

from __future__ import annotations

from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from memoryapp.operations.database import SqlStatement
from memoryapp.search.similarity import Question

KEEP = """
INSERT INTO memoryapp_queryvector (run_id, owner_id, profile_id, vector, typed_vector)
VALUES (%(run)s, %(owner)s, %(profile)s, %(vector)s, %(typed_vector)s)
ON CONFLICT DO NOTHING RETURNING run_id
"""
COPY = """
INSERT INTO memoryapp_queryvector (run_id, owner_id, profile_id, vector, typed_vector)
SELECT %s, owner_id, profile_id, vector, typed_vector FROM memoryapp_queryvector WHERE owner_id = %s AND run_id = %s
ON CONFLICT DO NOTHING
"""


def storing_statements(run_id: UUID | None, asked: Question) -> list[SqlStatement]:
    """The statement that stores the vectors of a question; none without a vector, or when the question belongs to no
    run."""
    *typed, last = (wording.vector for wording in asked.wordings)
    if last is None or run_id is None:
        return []
    values = {"run": run_id, "owner": asked.owner_id, "profile": asked.profile_id, "vector": last}
    return [(KEEP, {**values, "typed_vector": typed[0] if typed else None})]


async def copy(pool: AsyncConnectionPool, owner_id: int, *, source: str, target: UUID) -> None:
    """Gives the run ``target`` the vectors of the run ``source``."""
    async with pool.connection() as connection:
        await connection.execute(COPY, [target, owner_id, source])
