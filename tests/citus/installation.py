"""The program on a cluster, with some cells: in this process, and as an operator starts it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connections
from django.test import override_settings

from memoryapp.platform.sights import schema
from tests.citus.cluster import DATABASE, ROLE, Cluster
from tests.support.api_client import EVERY_SCOPE
from tests.support.clock import PATIENCE
from tests.support.stack import Stack

# More than the cluster has machines for them, so that one moves to a machine that is added.
CELLS = 3


@contextmanager
def connected(cluster: Cluster) -> Iterator[None]:
    """Connects this process to the cluster, whose tables are made."""
    address = {"NAME": DATABASE, "USER": ROLE, "HOST": "127.0.0.1", "PORT": str(cluster.nodes[0].port), "OPTIONS": {}}
    connections.close_all()
    with pytest.MonkeyPatch.context() as patched, override_settings(CELLS=CELLS):
        for name, value in address.items():
            patched.setitem(settings.DATABASES["default"], name, value)
        yield
        connections.close_all()


class Installation(Stack):
    """The running program, and a program that asks it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        url = f"postgresql://{ROLE}@127.0.0.1:{cluster.nodes[0].port}/{DATABASE}"
        # Two nodes know each other's sessions and tokens.
        limits = {"API_RATE": "1000000/m", "API_MAX_RUNS": "1000", "SECRET_KEY": "many-machines-" * 5}
        super().__init__(folder / "data", "--no-demo", DATABASE_URL=url, CELLS=str(CELLS), **limits)
        self.token = self.json("create_token", "a program", "--scope", ",".join(EVERY_SCOPE))["token"]
        self.client = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {self.token}"}, timeout=PATIENCE
        )

    def stop(self) -> int:
        self.client.close()
        return super().stop()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What an endpoint answers, which is no refusal."""
        answer = self.client.request(method, path, json=body)
        assert answer.status_code in (200, 202), (path, answer.status_code, answer.text[:500])
        return answer.json() if "json" in answer.headers["content-type"] and "export" not in path else answer.text

    def do(self, *arguments: str) -> str:
        """What a command prints, which ends well."""
        done = self.command(*arguments)
        assert done.returncode == 0, (arguments, done.stderr[-2000:])
        return done.stdout

    def cell_of(self, name: str) -> int:
        [(number,)] = self.cluster.ask("SELECT cell FROM memoryapp_chatuser WHERE name = %s", name)
        return int(number)

    def machine_of(self, name: str) -> int:
        """The node of the cluster on which the memory lies."""
        return self.cluster.where(schema(self.cell_of(name)))


def chat(name: str, days: Sequence[Sequence[str]]) -> str:
    """The chat as JSON Lines; each day is a session."""
    return "\n".join(
        json.dumps(
            {"user": name, "id": f"m{day}-{place}", "role": ("user", "assistant")[place % 2], "author": "A"}
            | {"ts": f"2026-03-{day:02}T10:{place:02}:00Z", "text": text}
        )
        for day, texts in enumerate(days, start=1)
        for place, text in enumerate(texts)
    )
