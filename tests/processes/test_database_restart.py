"""The database is killed and started again while sessions are archived, files imported and vectors made: all work
completes."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection, connections
from django.test import Client

from memoryapp.intake.invariants import violations
from memoryapp.models import AgentCall, Message
from tests.life.endpoint import Endpoint
from tests.life.stages import EACH, Works
from tests.life.sweeping import SWEEPS
from tests.support.clock import PATIENCE
from tests.support.stack import wait_for

STAGES = ("import", "archive", "embed")
RESTARTS = 2

# A reader whose server was killed cannot close its cursor: psycopg raises while it tries, and warns when collected.
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:.*ServerSideCursor.* was deleted while still open:ResourceWarning"),
]


class Sweeping:
    """Sweeps one stage again and again in a thread, as a worker does; no sweep may raise an exception."""

    def __init__(self, stage: str) -> None:
        self.faults: list[Exception] = []
        self._swept = threading.Semaphore(0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sweep, args=(SWEEPS[stage],))
        self._thread.start()

    def _sweep(self, sweep: Callable[[], None]) -> None:
        while not self._over.wait(0.02):
            try:
                sweep()
            except Exception as error:  # noqa: BLE001 - whatever a sweep raises is to be seen
                self.faults.append(error)
            finally:
                connection.close()
                self._swept.release()

    def wait_for_whole_sweep(self) -> bool:
        """Waits until a sweep has begun and ended from now on: the first one to end may have begun before."""
        while self._swept.acquire(blocking=False):
            pass
        return all(self._swept.acquire(timeout=PATIENCE) for _sweep in range(2))

    def end(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE)


@pytest.fixture
def durable(works: Works) -> Iterator[None]:
    """Lets the database keep committed rows when it is killed, as every database does except that of the tests."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = on")
    connections.close_all()
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


@pytest.fixture
def sweeping(durable: None) -> Iterator[list[Sweeping]]:
    started = [Sweeping(stage) for stage in STAGES]
    yield started
    for each in started:
        each.end()


@contextmanager
def database_away() -> Iterator[None]:
    """Kills the server, and prevents its start until the block ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        server = parent(cursor.fetchone()[0])
    supervisor = parent(server)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        os.kill(server, signal.SIGKILL)
        connections.close_all()
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)


def parent(process: int) -> int:
    status = Path(f"/proc/{process}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


def is_back() -> bool:
    connections.close_all()
    return Client().get("/readyz").status_code == 200


def test_a_database_that_is_killed_under_load_loses_and_doubles_nothing(
    works: Works, endpoint: Endpoint, sweeping: list[Sweeping]
) -> None:
    for _restart in range(RESTARTS):
        endpoint.arrived.clear()
        endpoint.gate.clear()
        for stage in STAGES:
            works.give(stage)
        # A model is answering about a session or a text when the database is killed.
        assert endpoint.arrived.wait(PATIENCE)
        with database_away():
            answer = Client().get("/readyz")
            assert (answer.status_code, answer.json()["database"]) == (503, "out of reach")
            endpoint.gate.set()
            assert all(each.wait_for_whole_sweep() for each in sweeping)
        wait_for(is_back)
    wait_for(lambda: all(works.is_done(stage) for stage in STAGES))
    assert [each.faults for each in sweeping] == [[]] * len(STAGES)
    works.check_once()
    assert Message.objects.count() == RESTARTS * (40 + 2 * EACH)
    assert not AgentCall.objects.exclude(outcome="").exists()
    assert list(violations()) == []
    assert endpoint.repeated <= 2 * RESTARTS
