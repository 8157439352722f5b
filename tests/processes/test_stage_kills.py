"""Every stage is killed at any SQL statement, and while a model answers: in the end all work is done, once. A received
reply is requested again only if the process died before storing it, so at most once for each kill: only the provider
could prevent that."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from memoryapp.intake.invariants import violations
from memoryapp.platform.database import conninfo
from tests.life.endpoint import Endpoint, serving
from tests.life.stages import Works
from tests.life.sweeping import SWEEPS, sweep
from tests.processes.conftest import asking
from tests.support.clock import PATIENCE
from tests.support.stack import CHECKOUT, wait_for

ASKING = ("archive", "embed", "consolidate", "extract")

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def asked() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture
def endpoint(asked: Endpoint) -> Endpoint:
    """The endpoint of the victim, without the requests of earlier stages."""
    asked.forget()
    return asked


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stages")


@pytest.fixture
def tmp_path(folder: Path) -> Path:
    """The folder of the victim, which reads the files of its work there."""
    return folder


@pytest.fixture(scope="module")
def victim(django_db_setup: None, asked: Endpoint, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """One process for all stages: it forks a child for each sweep, and its start takes longer than most sweeps."""
    environment = {
        **os.environ,
        **{name: str(value) for name, value in asking(asked, folder).items()},
        "DATABASE_URL": conninfo(),
        "DJANGO_SETTINGS_MODULE": "memoryapp.settings",
    }
    command = [sys.executable, "-m", "tests.support.victim", "tests.life.sweeping"]
    with subprocess.Popen(
        command, cwd=CHECKOUT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin
    assert process.stdout
    print(line, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def killed_at(process: subprocess.Popen[str], stage: str, statement: int) -> bool:
    """Whether the sweep sent this number of statements and died at the last of them."""
    assert ask(process, f"{stage} {statement}") == "forked"
    return ask(process, "wait") == str(-signal.SIGKILL)


def is_unlocked() -> bool:
    """Whether the database has noticed the end of the killed processes; until then a sweep skips their work, and asks
    nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()")
        return not cursor.fetchone()[0]


def kill_while_asking(process: subprocess.Popen[str], stage: str, endpoint: Endpoint) -> bool:
    """Whether a model was answering a question when the process died."""
    wait_for(is_unlocked)
    endpoint.arrived.clear()
    endpoint.gate.clear()
    assert ask(process, f"{stage} 0") == "forked"
    is_asked = endpoint.arrived.wait(PATIENCE)
    assert ask(process, "kill") == str(-signal.SIGKILL)
    endpoint.gate.set()
    return is_asked


def kill_again_and_again(
    process: subprocess.Popen[str], works: Works, stage: str, endpoint: Endpoint, kills: int
) -> None:
    """Kills the stage each time in the middle of new work, so that it is killed at every place."""
    works.give(stage)
    statements = sweep(stage)
    chance = random.Random(stage)
    done = 0
    for _ in range(4 * kills):
        works.give(stage)
        if stage in ASKING and chance.random() < 0.2:
            done += kill_while_asking(process, stage, endpoint)
        else:
            done += killed_at(process, stage, chance.randint(1, statements))
        if done == kills:
            return
    raise AssertionError(f"only {done} of {kills} were killed")


def check_completed(works: Works, stage: str, endpoint: Endpoint, kills: int) -> None:
    wait_for(lambda: works.is_done(stage), seconds=600)
    works.check(stage)
    assert list(violations()) == []
    assert endpoint.repeated <= kills


@pytest.mark.parametrize("stage", SWEEPS)
def test_a_stage_killed_anywhere_completes_and_doubles_nothing(
    works: Works, victim: subprocess.Popen[str], endpoint: Endpoint, stage: str
) -> None:
    kill_again_and_again(victim, works, stage, endpoint, 3)
    check_completed(works, stage, endpoint, 3)


@pytest.mark.thorough
@pytest.mark.parametrize("stage", SWEEPS)
def test_a_stage_killed_a_hundred_times_does_so_too(
    works: Works, victim: subprocess.Popen[str], endpoint: Endpoint, stage: str
) -> None:
    kill_again_and_again(victim, works, stage, endpoint, 100)
    check_completed(works, stage, endpoint, 100)
