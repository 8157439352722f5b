"""Deletes beside inserts in one memory: whoever comes too late finds it gone, and nobody gets a fault."""

from __future__ import annotations

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
from django.test import Client

from memoryapp.ingestion.messages import add_messages
from memoryapp.invariants import violations
from memoryapp.models import ChatUser, Message, Passage, PassageVector, Role, Run
from memoryapp.pipeline import archive
from memoryapp.search.vectors import embed_pending
from tests.conftest import operator, record, signed_in, talk
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


def before_the_delete(table: str, work: Callable[[], Any]) -> Callable[..., Any]:
    """Does the work once, immediately before the database deletes rows of the table."""
    left = iter([work])

    def execute(ask: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith(f'DELETE FROM "{table}"') and (due := next(left, None)):
            apart(due)
        return ask(sql, *rest)

    return execute


def test_a_vector_that_is_stored_while_its_passage_is_made_anew_goes_with_it(
    anna: ChatUser, embed: Callable[[], int]
) -> None:
    add_messages(anna, [record(1, "which cake?")])
    with connection.execute_wrapper(before_the_delete("memoryapp_passage", embed)):
        add_messages(anna, [record(2, "the one with honey")])
    assert Message.objects.of(anna).count() == 2
    assert list(violations()) == []
    embed()
    assert PassageVector.objects.count() == Passage.objects.count()


def test_what_is_written_to_a_run_that_goes_meanwhile_is_not_found(anna: ChatUser) -> None:
    """The page of the run was open; the run goes before the judgement is stored."""
    run = Run.objects.create(owner=anna, strategy="flash", query="tea?", state="finished")
    person = signed_in(Client(), operator("ada", Role.ADMIN))
    left = iter([lambda: Run.objects.all().delete()])

    def execute(ask: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith('INSERT INTO "memoryapp_judgement"') and (due := next(left, None)):
            apart(due)
        return ask(sql, *rest)

    with connection.execute_wrapper(execute):
        answer = person.post(f"/runs/{run.pk}/answer/judge/", {"good": "yes"})
    assert answer.status_code == 404
    assert person.get("/").status_code == 200


def test_many_who_write_and_delete_in_one_memory_get_no_fault(
    anna: ChatUser, embed: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    talk(anna, ("tea", ["green?", "yes"]), ("cats", ["how many?", "three"]))
    token = token_for()
    over = threading.Event()
    statuses: list[int] = []

    def ask(method: str, path: str, **body: Any) -> None:
        statuses.append(Program(token).ask(method, path, json.dumps(body).encode()).status_code)

    def say(id: str, number: int) -> None:
        said = {"id": id, "role": "user", "ts": f"2026-03-02T09:{number:02}:00Z", "text": f"{id} has honey"}
        ask("post", "/v1/messages", user="anna", messages=[said])

    def write(writer: int) -> None:
        for number in range(EACH):
            say(f"{writer}-{number}", number)
            if number % 3 == 2:
                ask("delete", f"/v1/messages/{writer}-{number - 1}?user=anna")

    def until_over(work: Callable[[], Any]) -> Callable[[], None]:
        def again() -> None:
            while not over.is_set():
                work()

        return again

    close = partial(ask, "post", "/v1/sessions/close", user="anna")
    with ThreadPoolExecutor(WRITERS + 3) as threads:
        beside = [threads.submit(apart, until_over(work)) for work in (embed, archive.archive_asked, close)]
        writing = [threads.submit(apart, partial(write, each)) for each in range(WRITERS)]
        try:
            for each in writing:
                each.result(PATIENCE)
            assert list(violations()) == []
            ask("delete", "/v1/users/anna")
        finally:
            over.set()
        for each in beside:
            each.result(PATIENCE)
    assert [status for status in statuses if status >= 500] == []
    assert [entry.getMessage() for entry in caplog.records if entry.exc_info or entry.levelno >= logging.ERROR] == []
    assert list(violations()) == []
    assert not ChatUser.with_erased.filter(pk=anna.pk).exists()
    say("again", 1)
    assert statuses[-1] == 200
