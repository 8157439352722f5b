"""The image, built by buildah of its Dockerfile on a system that debootstrap makes, and its processes as they are run.
Without a daemon: ``--isolation chroot`` and the storage driver ``vfs`` work as root in any machine, as buildah's manual
says. The database is the embedded one of the tests."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from mnemoscope_client import Mnemoscope

from memoryapp.platform.embedded import paths
from tests.deploy import relay
from tests.support.clock import PATIENCE
from tests.support.stack import CHECKOUT, free_port, wait_for

ENVIRONMENT = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
BASE, IMAGE = "localhost/mnemoscope-test-base", "localhost/mnemoscope-test"
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,ca-certificates"
CERTIFICATES = "/etc/ssl/certs"
ACCOUNT = 10001

pytestmark = [
    pytest.mark.container,
    pytest.mark.skipif(not shutil.which("buildah"), reason="buildah is not installed"),
    pytest.mark.skipif(not shutil.which("debootstrap"), reason="debootstrap is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="images are built here as root alone"),
]


def buildah(*arguments: str) -> str:
    done = subprocess.run(["buildah", *arguments], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("base")
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(folder)],
        check=True,
        capture_output=True,
    )
    scratch = buildah("from", "scratch")
    try:
        buildah("add", "-q", scratch, str(folder), "/")
        buildah("commit", "-q", scratch, BASE)
        shutil.rmtree(folder)
        # Behind a proxy with certificates of its own, packages are fetched with those of this machine.
        mounted = ("-v", f"{CERTIFICATES}:{CERTIFICATES}:ro", "--network", "host")
        buildah("bud", "-q", *mounted, "--format", "docker", "--build-arg", f"BASE={BASE}", "-t", IMAGE, str(CHECKOUT))
        yield IMAGE
    finally:
        buildah("rm", scratch)
        subprocess.run(["buildah", "rmi", IMAGE, BASE], env=ENVIRONMENT, capture_output=True)


@pytest.fixture(scope="module")
def container(image: str) -> Iterator[str]:
    made = buildah("from", image)
    yield made
    buildah("rm", made)


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options with which each process of the image runs: its data, and a database of its own."""
    data = tmp_path_factory.mktemp("data")
    os.chown(data, ACCOUNT, ACCOUNT)
    with relay.database("image") as (port, password):
        url = f"postgresql://{paths.ROLE}:{password}@127.0.0.1:{port}/image"
        settings = {"DATABASE_URL": url, "SECRET_KEY": "x" * 50, "ALLOWED_HOSTS": "127.0.0.1"}
        named = [option for name, value in settings.items() for option in ("--env", f"{name}={value}")]
        yield ["--network", "host", "-v", f"{data}:/data", *named]


@contextmanager
def process(container: str, mounted: list[str], *command: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        ["buildah", "run", *mounted, container, "--", *command],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.communicate(timeout=PATIENCE)


def test_the_image_runs_as_its_own_account_and_holds_no_tools(container: str) -> None:
    """Read-only: nothing that its processes need to write lies in the image."""
    printed = buildah(
        "run", container, "--", "sh", "-c", "id -u; for tool in gcc cc make git pip; do command -v $tool; done; true"
    )
    assert printed.split() == [str(ACCOUNT)]
    done = subprocess.run(
        ["buildah", "run", container, "--", "sh", "-c", "touch /app/x || touch /opt/mnemoscope/x"],
        env=ENVIRONMENT,
        capture_output=True,
    )
    assert done.returncode != 0
    assert "/healthz" in buildah("inspect", "--format", "{{.Docker.Config.Healthcheck.Test}}", container)


def test_its_processes_store_and_recall(container: str, mounted: list[str]) -> None:
    buildah(
        "run",
        *mounted,
        container,
        "--",
        "sh",
        "-c",
        "python3 manage.py migrate && python3 manage.py collectstatic --noinput",
    )
    made = buildah(
        "run", *mounted, container, "--", "python3", "manage.py", "create_token", "t", "--scope", "recall,ingest"
    )
    port = str(free_port())
    web = ("daphne", "-b", "127.0.0.1", "-p", port, "rerankui.asgi:application")
    worker = (
        "celery",
        "-A",
        "memoryapp.celery",
        "worker",
        "-P",
        "threads",
        "-c",
        "2",
        "--without-gossip",
        "--without-mingle",
    )
    beat = ("celery", "-A", "memoryapp.celery", "beat", "--pidfile", "", "--schedule", "/tmp/beat")
    with (
        process(container, mounted, *worker),
        process(container, mounted, *beat),
        process(container, mounted, *web) as served,
    ):

        def ready() -> bool:
            assert served.poll() is None, served.communicate()[0]
            try:
                return httpx.get(f"http://127.0.0.1:{port}/readyz?all=1", timeout=5).status_code == 200
            except httpx.TransportError:
                return False

        wait_for(ready, 2 * PATIENCE)
        [token] = [word for word in made.split() if word.startswith("mnemo_")]
        with Mnemoscope(f"http://127.0.0.1:{port}", token, user="anna", timeout=PATIENCE) as memory:
            memory.remember("Dasha baked a honey cake with walnuts.")
            [topic] = memory.close_sessions()
            assert memory.recall("Which cake did Dasha bake?").topics[0].id == topic.id
        page = httpx.get(f"http://127.0.0.1:{port}/login/", timeout=PATIENCE)
        style = re.findall(r'href="(/static/[^"]+\.css)"', page.text)[0]
        assert httpx.get(f"http://127.0.0.1:{port}{style}", timeout=PATIENCE).status_code == 200
