"""Runs and archives whose processes are killed at any moment: each ends, once, and all invariants hold."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import AgentCall, ChatUser, Message, Run, RunEvent, RunProgress, TopicEdit, Work
from memoryapp.platform.database import conninfo
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import open_clients
from tests.intake.test_archiving import message_record
from tests.support.archiving import archive_all
from tests.support.executing import QUERY, memory_of_three
from tests.support.splitting import SplittingChat
from tests.support.stack import CHECKOUT, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

PROCESSES = 20
RUNS_EACH = 10
# Each run has some nine events.
MOST_EVENTS = RUNS_EACH * 8


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


# Archives in processes that are killed at any moment, and several at once: each message is in one topic, each
# answer is paid for once.


SESSIONS, EACH = 10, 8
LONGEST_LIFE = 0.5


@pytest.fixture
def anna(transactional_db: None) -> Iterator[ChatUser]:
    yield ChatUser.objects.create(name="anna")
    connections.close_all()


@pytest.fixture
def archivers(anna: ChatUser) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    environment = {**os.environ, "DATABASE_URL": conninfo(), "DJANGO_SETTINGS_MODULE": "memoryapp.settings"}
    command = [sys.executable, "-m", "tests.support.victim", "tests.support.archiving"]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=CHECKOUT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    with ExitStack() as stack:
        processes = (stack.enter_context(started()), stack.enter_context(started()))
        yield processes
        for process in processes:
            assert process.stdin
            process.stdin.close()


def ask(process: subprocess.Popen[str], line: object, answers: set[str]) -> None:
    assert process.stdin
    assert process.stdout
    print(line, file=process.stdin, flush=True)
    assert process.stdout.readline().strip() in answers


def talk(owner: ChatUser, first: int) -> None:
    """Makes sessions a day apart."""
    add_messages(
        owner,
        [
            message_record(number, minutes=number // EACH * 1_440 + number % EACH)
            for number in range(first * EACH, (first + SESSIONS) * EACH)
        ],
    )


def check_whole(sessions: int) -> None:
    """Checks that each session was archived once, by a stored answer, and that no question has two answers."""
    assert not Message.objects.active().exists()
    edits = list(TopicEdit.objects.values_list("kind", "call__outcome"))
    assert edits == [("archive", "")] * sessions
    keys = Counter(AgentCall.objects.filter(outcome="").values_list("key", flat=True))
    assert (len(keys), set(keys.values())) == (sessions, {1})
    assert list(violations()) == []


@pytest.mark.parametrize("kills", [4, pytest.param(25, marks=pytest.mark.thorough)])
def test_a_killed_archive_is_continued_and_nothing_is_paid_twice(
    anna: ChatUser, archivers: tuple[subprocess.Popen[str], ...], kills: int
) -> None:
    chance = random.Random(11)
    for kill in range(kills):
        talk(anna, kill * SESSIONS)
        Work.objects.all().delete()
        ask(archivers[0], anna.pk, {"forked"})
        wait_for(Work.objects.exists)
        time.sleep(chance.random() * LONGEST_LIFE)  # this moment is what the test is about, and no event announces it
        ask(archivers[0], "kill", {str(-signal.SIGKILL), "0"})
    chat = SplittingChat()
    archive_all([str(anna.pk)], chat)
    check_whole(kills * SESSIONS)
    assert chat.asked <= AgentCall.objects.count()


def test_two_workers_and_a_person_at_once_make_one_topic_of_a_message(
    anna: ChatUser, archivers: tuple[subprocess.Popen[str], ...]
) -> None:
    talk(anna, 0)
    for process in archivers:
        ask(process, anna.pk, {"forked"})
    archive_all([str(anna.pk)], SplittingChat())
    for process in archivers:
        ask(process, "kill", {str(-signal.SIGKILL), "0"})
    check_whole(SESSIONS)
