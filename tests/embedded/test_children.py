"""How `up` reacts to a process that ends, and to one that hangs."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from memoryapp.platform.embedded import children
from memoryapp.platform.embedded.children import Child, stop
from tests.support.clock import PATIENCE

BEATING = "import time; from memoryapp.platform.embedded import children; children.ping_from_thread(); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {BEATING}"
IN_A_LOOP = """
import asyncio
from memoryapp.platform.embedded import children

async def main():
    children.ping_from_loop()
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(params=[BEATING, IN_A_LOOP], ids=["thread", "loop"])
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    made = Child("web", (sys.executable, "-c", request.param), {}, hang_timeout=4.0)
    made.start()
    yield made
    stop([made])


def pid_once_heard(child: Child) -> int:
    assert select.select([child._watchdog], [], [], PATIENCE)[0]
    assert child._process
    return child._process.pid


def tended(child: Child, until: str) -> list[str]:
    """Watches the children until a message contains this text; returns the messages."""
    lines: list[str] = []
    deadline = time.monotonic() + PATIENCE
    while not any(until in line for line in lines):
        assert time.monotonic() < deadline, lines
        child.tend(lines.append)
        time.sleep(0.05)
    return lines


def test_one_that_hangs_is_killed_and_started_again(child: Child) -> None:
    before = pid_once_heard(child)
    os.kill(before, signal.SIGSTOP)
    assert tended(child, "starting it again") == [
        "web gave no sign of life for 4 s; killing it",
        "web ended (signal 9); starting it again in 0.5 s",
    ]
    while not child.alive:
        child.tend(print)
        time.sleep(0.05)
    assert pid_once_heard(child) != before


def test_what_does_not_end_when_it_is_asked_to_is_killed_half_a_second_later() -> None:
    child = Child("worker", (sys.executable, "-c", STUBBORN), {})
    child.start()
    pid_once_heard(child)
    stop([child])
    assert child._process
    assert child._process.wait(PATIENCE) == -signal.SIGKILL
    assert children._GRACE <= 0.5


def test_one_that_never_starts_is_killed_after_its_time_to_start() -> None:
    child = Child(
        "worker", (sys.executable, "-c", "import time; time.sleep(600)"), {}, hang_timeout=0.1, start_timeout=0.2
    )
    child.start()
    lines = tended(child, "starting it again")
    assert lines[0] == "worker did not start within 0.2 s; killing it"
    assert not child.alive
