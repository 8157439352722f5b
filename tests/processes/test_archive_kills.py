"""Archives in processes that are killed at any moment, and several at once: each message is in one topic, each answer
is paid for once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.db import connections

from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import AgentCall, ChatUser, Message, TopicEdit, Work
from memoryapp.platform.database import conninfo
from tests.ingestion.test_archiving import message_record
from tests.support.archiving import archive_all
from tests.support.splitting import SplittingChat
from tests.support.stack import CHECKOUT, wait_for

SESSIONS, EACH = 10, 8
LONGEST_LIFE = 0.5

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def anna(transactional_db: None) -> Iterator[ChatUser]:
    yield ChatUser.objects.create(name="anna")
    connections.close_all()


@pytest.fixture
def victims(anna: ChatUser) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
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
    anna: ChatUser, victims: tuple[subprocess.Popen[str], ...], kills: int
) -> None:
    chance = random.Random(11)
    for kill in range(kills):
        talk(anna, kill * SESSIONS)
        Work.objects.all().delete()
        ask(victims[0], anna.pk, {"forked"})
        wait_for(Work.objects.exists)
        time.sleep(chance.random() * LONGEST_LIFE)  # this moment is what the test is about, and no event announces it
        ask(victims[0], "kill", {str(-signal.SIGKILL), "0"})
    chat = SplittingChat()
    archive_all([str(anna.pk)], chat)
    check_whole(kills * SESSIONS)
    assert chat.asked <= AgentCall.objects.count()


def test_two_workers_and_a_person_at_once_make_one_topic_of_a_message(
    anna: ChatUser, victims: tuple[subprocess.Popen[str], ...]
) -> None:
    talk(anna, 0)
    for process in victims:
        ask(process, anna.pk, {"forked"})
    archive_all([str(anna.pk)], SplittingChat())
    for process in victims:
        ask(process, "kill", {str(-signal.SIGKILL), "0"})
    check_whole(SESSIONS)
