"""Deletes beside inserts in one memory: whoever comes too late finds it gone, and nobody gets a fault."""

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections

from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Message, Passage, PassageVector, Role
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep.pipeline import archive
from tests.conftest import operator, record, signed_in, talk
from tests.erasure.conftest import erase_user
from tests.search.test_vectors import Hashing
from tests.support.api_client import Program, token_for
from tests.support.clock import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)
WRITERS, EACH = 6, 8


def apart(work: Callable[[], Any]) -> Any:
    """Does the work in a thread with a connection of its own, and waits for it."""

    def closing() -> Any:
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(closing).result(PATIENCE)


@pytest.fixture
def embed() -> Callable[[], int]:
    return lambda: async_to_sync(embed_pending)(Hashing())


def before(statement: str, work: Callable[[], Any]) -> Callable[..., Any]:
    """Does the work once, in another connection, immediately before a statement that begins so."""
    left = iter([work])

    def execute(ask: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith(statement) and (due := next(left, None)):
            apart(due)
        return ask(sql, *rest)

    return execute


def test_a_vector_that_is_stored_while_its_passage_is_made_anew_goes_with_it(
    anna: ChatUser, embed: Callable[[], int]
) -> None:
    add_messages(anna, [record(1, "which cake?")])
    with connection.execute_wrapper(before('DELETE FROM "memoryapp_passage"', embed)):
        add_messages(anna, [record(2, "the one with honey")])
    assert Message.objects.of(anna).count() == 2
    assert list(violations()) == []
    embed()
    assert PassageVector.objects.count() == Passage.objects.count()


def test_what_is_written_to_a_memory_that_goes_meanwhile_is_not_found(anna: ChatUser, boris: ChatUser) -> None:
    person = signed_in(operator("ada", Role.ADMIN))
    view = {"list": "topics", "query": "q=tea", "name": "tea"}
    with connection.execute_wrapper(before('INSERT INTO "memoryapp_savedview"', lambda: erase_user(anna, "ada"))):
        assert person.post(f"/memory/{anna.pk}/views/", view).status_code == 404
    assert person.post(f"/memory/{boris.pk}/views/", view).status_code == 302


class Talk:
    """What programs ask of one memory, and the statuses of the answers."""

    def __init__(self) -> None:
        self.token = token_for()
        self.statuses: list[int] = []

    def ask(self, method: str, path: str, **body: Any) -> None:
        self.statuses.append(Program(self.token).ask(method, path, json.dumps(body).encode()).status_code)

    def say(self, id: str, minute: int) -> None:
        said = {"id": id, "role": "user", "ts": f"2026-03-02T09:{minute:02}:00Z", "text": f"{id} has honey"}
        self.ask("post", "/v1/messages", user="anna", messages=[said])

    def write(self, writer: int) -> None:
        for number in range(EACH):
            self.say(f"{writer}-{number}", number)
            if number % 3 == 2:
                self.ask("delete", f"/v1/messages/{writer}-{number - 1}?user=anna")

    def close(self) -> None:
        self.ask("post", "/v1/sessions/close", user="anna")


def until(over: threading.Event, work: Callable[[], Any]) -> None:
    while not over.is_set():
        work()


@pytest.mark.slow
def test_many_who_write_and_delete_in_one_memory_get_no_fault(
    anna: ChatUser, embed: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    talk(anna, ("tea", ["green?", "yes"]), ("cats", ["how many?", "three"]))
    asked, over = Talk(), threading.Event()
    with ThreadPoolExecutor(WRITERS + 3) as threads:
        beside = [
            threads.submit(apart, partial(until, over, work)) for work in (embed, archive.archive_asked, asked.close)
        ]
        writing = [threads.submit(apart, partial(asked.write, each)) for each in range(WRITERS)]
        try:
            for each in writing:
                each.result(PATIENCE)
            assert list(violations()) == []
            asked.ask("delete", "/v1/users/anna")
        finally:
            over.set()
        for each in beside:
            each.result(PATIENCE)
    assert {200} <= set(asked.statuses) <= {200, 404, 409}
    faults = [entry.getMessage() for entry in caplog.records if entry.exc_info or entry.levelno >= logging.ERROR]
    assert faults == []
    assert list(violations()) == []
    assert not ChatUser.with_erased.filter(pk=anna.pk).exists()
    asked.say("again", 1)
    assert asked.statuses[-1] == 200
