"""Heartbeats of the processes that answer no requests: the worker and beat. Each writes its row every few seconds. The
database computes the age of a row, so no other clock matters."""

from memoryapp.platform.statements import execute, fetched

PROCESSES = ("worker", "beat")
INTERVAL = 10.0
LATE_AFTER = 45.0
NEVER = "no sign yet"

_RECORD = """
INSERT INTO memoryapp_heartbeat (process, at) VALUES (%s, clock_timestamp())
ON CONFLICT (process) DO UPDATE SET at = excluded.at
"""
# A time in the future was written before the clock of the database was set back.
_AGES = "SELECT process, abs(extract(epoch FROM clock_timestamp() - at))::float8 FROM memoryapp_heartbeat"


def record(process: str) -> None:
    """Writes the heartbeat of this process. Raises DatabaseError."""
    execute(_RECORD, [process])


def states() -> dict[str, str]:
    """Returns for each process ``ok``, or the age of its last heartbeat as text. Raises DatabaseError."""
    ages = dict(fetched(_AGES))
    shown = {process: "ok" if age < LATE_AFTER else f"no sign for {age:.0f} s" for process, age in ages.items()}
    return {process: shown.get(process, NEVER) for process in PROCESSES}
