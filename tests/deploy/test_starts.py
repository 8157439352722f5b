"""What the units, the compose file and the chart start does start, remembers, recalls and stops. As an account that may
read everything and write only its data, with a broker of its own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from memoryapp.platform.embedded import paths
from tests.deploy import relay, ways
from tests.deploy.ways import Start
from tests.support.clock import PATIENCE
from tests.support.stack import CHECKOUT, free_port, wait_for

BROKER = shutil.which("valkey-server") or shutil.which("redis-server")
HOST = ways.NEEDED["host"]
AS_ROOT = os.geteuid() == 0
ACCOUNT = 10001
READING = "-all,+dac_read_search"
UNPRIVILEGED = (
    *("setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups", "--no-new-privs"),
    *(f"--inh-caps={READING}", f"--ambient-caps={READING}", f"--bounding-set={READING}"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(not BROKER, reason="neither valkey-server nor redis-server is installed"),
    pytest.mark.skipif(AS_ROOT and not shutil.which("setpriv"), reason="setpriv is not installed"),
]


@dataclass(frozen=True, slots=True)
class Stores:
    """The ports of the database `starts` and of the broker, and the password of the program's role."""

    database: int
    password: str
    broker: int

    @property
    def redis(self) -> str:
        return f"redis://127.0.0.1:{self.broker}/0"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    assert BROKER
    port = free_port()
    command = [BROKER, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir"]
    with (
        relay.database("starts") as (database, password),
        subprocess.Popen([*command, str(tmp_path_factory.mktemp("broker"))], stdout=subprocess.DEVNULL) as broker,
    ):
        wait_for(lambda: _listens(port))
        yield Stores(database, password, port)
        broker.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def of_units(stores: Stores) -> list[Start]:
    url = f"postgresql://{paths.ROLE}:{stores.password}@127.0.0.1:{stores.database}/starts"
    named = {"DATABASE_URL": url, "REDIS_URL": stores.redis, "SECRET_KEY": "x" * 50, "ALLOWED_HOSTS": HOST}
    return ways.of_units(named)


def of_compose(stores: Stores) -> list[Start]:
    """Where the compose file names its own database and broker, it gets those of the tests."""
    secrets = {"DATABASE_PASSWORD": stores.password, "POSTGRES_PASSWORD": "y", "SECRET_KEY": "x" * 50}
    theirs = {
        "//mnemoscope:": f"//{paths.ROLE}:",
        "@postgres/mnemoscope": f"@127.0.0.1:{stores.database}/starts",
        "valkey:6379": f"127.0.0.1:{stores.broker}",
    }
    started = ways.of_compose({**secrets, "ALLOWED_HOSTS": f"{HOST},127.0.0.1"})
    return [Start(each.name, each.command, _replaced(each.environment, theirs)) for each in started]


def of_chart(stores: Stores) -> list[Start]:
    pytest.importorskip("helm_python", reason="see requirements-chart.lock")
    database = {"host": "127.0.0.1", "port": stores.database, "name": "starts", "user": paths.ROLE}
    values = {**ways.NEEDED, "database": database, "redisUrl": stores.redis}
    return ways.of_chart(values, {"DATABASE_PASSWORD": stores.password, "SECRET_KEY": "x" * 50})


def _replaced(environment: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    return {name: _with(value, words) for name, value in environment.items()}


def _with(text: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


class Ground:
    """Where the processes of one way run: the folders that they may write, and the port of the web."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        programs = folder / "bin"
        for each in (folder, programs, folder / "data", folder / "run"):
            each.mkdir(exist_ok=True)
            if AS_ROOT and each != programs:
                os.chown(each, ACCOUNT, ACCOUNT)
        installed = programs / "mnemoscope"
        installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{CHECKOUT}/manage.py" "$@"\n')
        installed.chmod(0o755)
        data = str(folder / "data")
        self._places = {"/opt/mnemoscope/bin/": "", "/run/mnemoscope": f"{folder}/run", "8000": str(self.port)}
        self._places |= {"/var/lib/mnemoscope": data, "/data": data, "/tmp/": f"{folder}/run/"}
        self._path = f"{programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"

    @contextmanager
    def launched(self, start: Start) -> Iterator[subprocess.Popen[str]]:
        """A process that is killed if it has not ended inside."""
        with self._launch(start) as process:
            try:
                yield process
            finally:
                process.kill()

    def _launch(self, start: Start) -> subprocess.Popen[str]:
        environment = _replaced(start.environment, self._places)
        environment |= {"PATH": self._path, "PYTHONDONTWRITEBYTECODE": "1"}
        with (self.folder / f"{start.name}.log").open("a") as log:
            return subprocess.Popen(
                [*(UNPRIVILEGED if AS_ROOT else ()), *(_with(word, self._places) for word in start.command)],
                cwd=CHECKOUT,
                env=environment,
                stdout=subprocess.PIPE if start.name == "token" else log,
                stderr=log,
                text=True,
            )

    def output(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
def ground() -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="mnemoscope-starts-") as name:
        os.chmod(name, 0o755)
        yield Ground(Path(name).resolve())


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(of_units, id="systemd"),
        # It has the commands of the chart, and starts them as the image does, which has a test of its own.
        pytest.param(of_compose, id="compose", marks=pytest.mark.thorough),
        pytest.param(of_chart, id="helm"),
    ],
)
def test_what_it_starts_recalls_and_stops(way: Callable[[Stores], list[Start]], stores: Stores, ground: Ground) -> None:
    *before, web, worker, beat = way(stores)
    assert [each.name for each in (web, worker, beat)] == ["web", "worker", "beat"]
    for each in before:
        with ground.launched(each) as process:
            assert process.wait(PATIENCE) == 0, ground.output()
    with ExitStack() as stack:
        running = [stack.enter_context(ground.launched(each)) for each in (web, worker, beat)]
        wait_for(lambda: _is_ready(ground, running))
        _recall(ground, web)
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE) for process in running] == [0, 0, 0], ground.output()
    assert "Traceback" not in ground.output()


def _is_ready(ground: Ground, running: list[subprocess.Popen[str]]) -> bool:
    assert [process.poll() for process in running] == [None, None, None], ground.output()
    try:
        answer = httpx.get(f"http://127.0.0.1:{ground.port}/readyz?all=1", headers={"Host": HOST}, timeout=PATIENCE)
    except httpx.TransportError:
        return False
    return answer.status_code == 200


def _recall(ground: Ground, web: Start) -> None:
    """A program stores and recalls, and a browser gets a page with its style, behind a proxy that speaks TLS."""
    asked = ("mnemoscope", "create_token", "p", "--scope", "recall,ingest", "--json")
    with ground.launched(Start("token", asked, web.environment)) as process:
        made: Any = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, ground.output()
    token = httpx.Response(200, text=made).json()["token"]
    headers = {"Host": HOST, "X-Forwarded-Proto": "https", "Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{ground.port}", headers=headers, timeout=PATIENCE) as client:
        messages = [{"id": "m1", "role": "user", "text": "Dasha baked a honey cake with walnuts."}]
        client.post("/v1/messages", json={"user": "anna", "messages": messages}).raise_for_status()
        found = client.post("/v1/recall", json={"user": "anna", "query": "Which cake did Dasha bake?"}).json()
        assert "honey cake" in found["context"], found
        page = client.get("/login/").raise_for_status()
        style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        assert client.get(style).raise_for_status().headers["content-type"].startswith("text/css"), style
