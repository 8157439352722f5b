"""Two imports of laplaced at the same moment: files that name the same chat users in any order wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection, connections

from memoryapp.importers import MessageRecord, Rejected, open_chat
from memoryapp.intake.imports import Course, addressee_of, import_for
from memoryapp.intake.invariants import violations
from memoryapp.intake.transfer import distilled
from memoryapp.models import ChatUser, Message
from tests.support.clock import PATIENCE
from tests.support.stack import wait_for
from tests.transfer.laplaced import database, message

pytestmark = pytest.mark.django_db(transaction=True)

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def of(folder: Path, *users: str) -> Path:
    """Writes a file whose first message is of the first user."""
    folder.mkdir()
    listed = [{"id": name, "username": name} for name in users]
    talk = [{**message(n, None, f"{folder.name} {n}"), "user_id": name} for n, name in enumerate(users, 1)]
    return database(folder, users=listed, history=[{**row, "id": row["id"] + len(folder.name)} for row in talk])


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])


def importing(path: Path, second: str, is_there: threading.Event, other: threading.Event) -> Callable[[], None]:
    """Imports the file; before its second user it waits until the other import has come as far, or waits itself."""

    def observe(item: MessageRecord | Rejected, name: str) -> None:
        if name == second:
            is_there.set()
            wait_for(lambda: other.is_set() or somebody_waits())

    def work() -> None:
        chat = open_chat(path)
        addressee, _note = addressee_of(chat, "")
        try:
            with distilled.one_transaction(chat, addressee) as opened:
                import_for(chat, addressee, Course(opened=opened, observe=observe))
        finally:
            connections.close_all()

    return work


@pytest.mark.parametrize("known", [(), ("anna", "boris")])
def test_files_with_their_users_in_opposite_order_both_arrive(tmp_path: Path, known: tuple[str, ...]) -> None:
    for name in known:
        ChatUser.objects.create(name=name)
    first, second = of(tmp_path / "one", "anna", "boris"), of(tmp_path / "other", "boris", "anna")
    here, there = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        works = importing(first, "boris", here, there), importing(second, "anna", there, here)
        for future in [pool.submit(work) for work in works]:
            future.result(PATIENCE)
    assert {name: Message.objects.filter(owner__name=name).count() for name in ("anna", "boris")} == {
        "anna": 2,
        "boris": 2,
    }
    assert list(violations()) == []
