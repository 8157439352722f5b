"""Two hundred runs whose process is killed at any moment: each ends, once, and all invariants hold."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Run, RunEvent, RunProgress
from memoryapp.platform.database import conninfo
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import open_clients
from tests.support.executing import QUERY, memory_of_three
from tests.support.stack import CHECKOUT, wait_for

PROCESSES = 20
RUNS_EACH = 10
# Each run has some nine events.
MOST_EVENTS = RUNS_EACH * 8

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def memory(transactional_db: None) -> Iterator[ChatUser]:
    yield async_to_sync(memory_of_three)()
    connections.close_all()


@pytest.fixture
def victims(memory: ChatUser) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "DATABASE_URL": conninfo(), "DJANGO_SETTINGS_MODULE": "memoryapp.settings"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.victim", "tests.support.hesitating"],
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def line_from(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def kill_while_executing(process: subprocess.Popen[str], names: list[UUID], count: int) -> None:
    """Kills a child that executes these runs when they have this number of events together, or have all ended."""
    assert process.stdin
    print(*names, file=process.stdin, flush=True)
    assert line_from(process) == "forked"
    events = RunEvent.objects.filter(run__in=names)
    going = Run.objects.filter(pk__in=names).exclude(state=Run.State.FINISHED)
    wait_for(lambda: events.count() >= count or not going.exists())
    print("kill", file=process.stdin, flush=True)
    assert line_from(process) in {str(-signal.SIGKILL), "0"}


@pytest.mark.smoke
def test_killed_processes_leave_runs_that_all_end_once(memory: ChatUser, victims: subprocess.Popen[str]) -> None:
    chance = random.Random(7)
    for _ in range(PROCESSES):
        names = [lifecycle.start(memory, QUERY).pk for _ in range(RUNS_EACH)]
        kill_while_executing(victims, names, chance.randint(1, MOST_EVENTS))
    cut_off = Run.objects.filter(state=Run.State.RUNNING)
    assert cut_off.count() > PROCESSES
    stages = Counter(RunEvent.objects.filter(run__in=cut_off).values_list("kind", flat=True))
    assert {"run_started", "candidates_found", "turn_started", "topics_read"} <= stages.keys()

    endings.close_abandoned(timedelta(0))
    while late := lifecycle.unclaimed(timedelta(0)):
        async_to_sync(_execute)(late)

    assert Run.objects.filter(state=Run.State.FINISHED).count() == PROCESSES * RUNS_EACH
    ends = Counter(RunEvent.objects.filter(kind="run_finished").values_list("run", flat=True))
    assert (len(ends), set(ends.values())) == (PROCESSES * RUNS_EACH, {1})
    assert not RunProgress.objects.exists()
    assert list(violations()) == []


async def _execute(names: list[UUID]) -> None:
    async with open_clients() as clients:
        for name in names:
            await lifecycle.execute(name, clients)
