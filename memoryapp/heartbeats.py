"""Signs of life of the processes that no page asks: the worker and beat.

Each writes a row every few seconds; how long that was ago is measured by the database, so no clock but its own matters.
"""

from __future__ import annotations

from django.db import connection

PROCESSES = ("worker", "beat")
EVERY = 10.0
LATE = 45.0
NEVER = "no sign yet"

_GIVE = """
INSERT INTO memoryapp_heartbeat (process, at) VALUES (%s, clock_timestamp())
ON CONFLICT (process) DO UPDATE SET at = excluded.at
"""
# One that lies ahead was written before the database's clock was put back.
_AGES = "SELECT process, abs(extract(epoch FROM clock_timestamp() - at))::float8 FROM memoryapp_heartbeat"


def give(process: str) -> None:
    """Writes that this process lives. Raises DatabaseError."""
    with connection.cursor() as cursor:
        cursor.execute(_GIVE, [process])


def states() -> dict[str, str]:
    """Of each process ``ok``, or since when there is no sign of it. Raises DatabaseError."""
    with connection.cursor() as cursor:
        cursor.execute(_AGES)
        ages = dict(cursor.fetchall())
    return {process: _state(ages.get(process)) for process in PROCESSES}


def _state(age: float | None) -> str:
    if age is None:
        return NEVER
    return "ok" if age < LATE else f"no sign for {age:.0f} s"
