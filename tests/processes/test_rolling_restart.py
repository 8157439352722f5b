"""Two web nodes restarted one after the other under load: a client that asks the other node loses no recall."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from memoryapp.models import ChatUser, Run
from memoryapp.platform.database import conninfo
from tests.support import forked
from tests.support.api_client import token_for
from tests.support.clock import PATIENCE
from tests.support.executing import QUERY, memory_of_three
from tests.support.stack import free_port, wait_for

# The measurement of the docs has 500 of these.
REQUESTS = int(os.environ.get("ROLLING_REQUESTS", "60"))
AT_ONCE = 4

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def memory(transactional_db: None) -> Iterator[ChatUser]:
    yield async_to_sync(memory_of_three)()
    connections.close_all()


class Node:
    """A web process on a port of its own, with the database of the tests."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        folder.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "DJANGO_ALLOW_ASYNC_UNSAFE"},
            "DATABASE_URL": conninfo(),
            "DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "memoryapp.settings",
            "ALLOWED_HOSTS": "127.0.0.1",
            "SECRET_KEY": "rolling-restart-" * 4,
            "API_RATE": "1000000/m",
            "API_MAX_RUNS": "1000",
            **environment,
        }
        self.process: BaseProcess | None = None

    def start(self) -> None:
        command = ["daphne", "-v", "0", "-b", "127.0.0.1", "-p", str(self.port), "rerankui.asgi:application"]
        self.process = forked.start(command, self.environment, self.folder / "output", self.folder / "errors")

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=PATIENCE).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process and self.process.pid and self.process.is_alive():
            os.kill(self.process.pid, number)
            self.process.join(PATIENCE)


@pytest.fixture
def nodes(memory: ChatUser, tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    made = Node(tmp_path / "a"), Node(tmp_path / "b")
    for node in made:
        # What ends them must not depend on the test.
        (node.folder / "output").touch()
        (node.folder / "errors").touch()
        node.start()
    for node in made:
        wait_for(node.is_ready)
    yield made
    for node in made:
        node.stop(signal.SIGKILL)


def recalled(nodes: tuple[Node, Node], number: int, token: str) -> str:
    """Asks one node and, as the deployment page says, the other one where that fails; returns how it ended."""
    failures = []
    for node in (nodes[number % 2], nodes[1 - number % 2]):
        try:
            answer = httpx.post(
                f"{node.url}/v1/recall",
                json={"user": "anna", "query": QUERY},
                headers={"authorization": f"Bearer {token}"},
                timeout=PATIENCE,
            )
        except httpx.TransportError as error:
            failures.append(type(error).__name__)
            continue
        if answer.status_code == 200:
            document = answer.json()
            return "ok" if document["topics"] and not document["fallback"] else f"ended as {document['fallback']}"
        failures.append(str(answer.status_code))
    return " and ".join(failures)


def test_a_rolling_restart_under_load_fails_no_request(memory: ChatUser, nodes: tuple[Node, Node]) -> None:
    token, done = token_for(memory), count()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(lambda n=n: (recalled(nodes, n, token), next(done))[0]) for n in range(REQUESTS)]
        for place, node in enumerate(nodes, start=1):
            wait_for(lambda due=place * REQUESTS // 4: sum(each.done() for each in asked) >= due, PATIENCE * 3)
            node.stop()
            assert node.process is not None
            assert node.process.exitcode == 0
            node.start()
            wait_for(node.is_ready)
        ends = Counter(each.result() for each in asked)
    assert ends == {"ok": REQUESTS}
    assert not Run.objects.exclude(state=Run.State.FINISHED).exists()
    assert not Run.objects.exclude(fallback="").exists()
