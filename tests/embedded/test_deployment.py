"""The program without `up`, as docs/deployment.md has it: processes of one's own on a database of one's own."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.lease import Lease
from memoryapp.platform.embedded.paths import Cluster
from tests.support import forked
from tests.support.clock import PATIENCE
from tests.support.stack import free_port, wait_for

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
KEY = "one-key-for-all-nodes-of-thirty-two-characters"
POOLED = "The database is behind a pooler that gives each transaction another connection"


@contextmanager
def served(server: Cluster) -> Iterator[None]:
    """The server runs inside, and has ended after it."""
    with Lease(server), paths.opened(server.base / paths.SUPERVISOR) as lock:
        yield
    with paths.opened(server.base / paths.SUPERVISOR) as lock:
        paths.acquire(lock)


@pytest.fixture(scope="module")
def server(ground: Path) -> Cluster:
    """A database that was migrated, and is not running."""
    made = Cluster(ground / "postgres")
    with served(made):
        done = manage(ground, address(made), "migrate")
        assert done.returncode == 0, done.stderr
    return made


def address(server: Cluster, **more: object) -> str:
    where = {"host": server.socket, "user": paths.ROLE, "dbname": paths.DATABASE, "passfile": server.passfile}
    return make_conninfo(**{name: str(value) for name, value in (where | more).items()})


def environment(ground: Path, database: str, **more: str) -> dict[str, str]:
    own = {"DATABASE_URL": database, "DATA_DIR": str(ground / "data"), "SECRET_KEY": KEY}
    return {**os.environ, **own, "DJANGO_SETTINGS_MODULE": "memoryapp.settings", **more}


def manage(ground: Path, database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run([forked.MANAGE, *arguments], environment(ground, database, DATABASE_WAIT="0"))


class Process:
    """One that `up` would start; what it says lies in ``log``."""

    def __init__(self, name: str, ground: Path, database: str, *command: str) -> None:
        self.log = ground / f"{name}.log"
        self.log.write_text("")
        self.process = forked.start(command, environment(ground, database), self.log, self.log)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()

    def count(self, words: str) -> int:
        """How often."""
        assert self.process.is_alive(), self.log.read_text()
        return self.log.read_text().count(words)

    def end(self) -> int | None:
        """The code it ends with by itself."""
        self.process.join(PATIENCE)
        return self.process.exitcode


def worker(ground: Path, database: str) -> Process:
    given = ("worker", "-P", "threads", "-c", "2", "-l", "WARNING", "--without-gossip", "--without-mingle")
    return Process("worker", ground, database, "tests.embedded.beating", "-q", "-A", "memoryapp.celery", *given)


def beat(ground: Path, database: str) -> Process:
    given = ("beat", "-l", "WARNING", "--pidfile", "")
    return Process("beat", ground, database, "tests.embedded.beating", "-q", "-A", "memoryapp.celery", *given)


def web(name: str, ground: Path, database: str, port: int) -> Process:
    return Process(name, ground, database, "daphne", "-v", "0", "-p", str(port), "rerankui.asgi:application")


def test_worker_and_beat_say_little_while_the_database_is_away_and_go_on_after_it(
    ground: Path, server: Cluster
) -> None:
    signs = "SELECT process FROM memoryapp_heartbeat WHERE at > clock_timestamp() - interval '45 s' ORDER BY process"
    with ExitStack() as stack:
        with served(server):
            both = [stack.enter_context(made(ground, address(server))) for made in (worker, beat)]
            with psycopg.connect(address(server), autocommit=True) as database:
                wait_for(lambda: database.execute(signs).fetchall() == [("beat",), ("worker",)])
        wait_for(lambda: all(each.count("The database cannot be reached: ") for each in both))
        with served(server):
            wait_for(lambda: all(each.count("The database is back after") for each in both))
            with psycopg.connect(address(server), autocommit=True) as database:
                database.execute("DELETE FROM memoryapp_heartbeat")
                wait_for(lambda: database.execute(signs).fetchall() == [("beat",), ("worker",)])
        assert [each.count("Traceback") for each in both] == [0, 0]


def test_several_nodes_serve_one_database(ground: Path, server: Cluster) -> None:
    ports = free_port(), free_port()
    assert manage(ground, address(server), "collectstatic", "--noinput").returncode == 0
    with served(server), ExitStack() as stack:
        for number, port in enumerate(ports):
            stack.enter_context(web(f"web {number}", ground, address(server), port))
        for port in ports:
            ready = wait_for(lambda port=port: ready_of(port))
            assert (ready["database"], ready["broker"]) == ("ok", "ok")
            assert get(port, "/readyz?all=1")[0] in (200, 503)
        cookie = signed_in(ground, server)
        assert [status(port, cookie) for port in ports] == [200, 200]
        assert [status(port, "") for port in ports] == [302, 302]


def ready_of(port: int) -> dict[str, str] | None:
    """What a node says once it is ready; while it starts, it says that it is not."""
    answer = get(port, "/readyz")
    return answer[1] if answer and answer[0] == 200 else None


def get(port: int, path: str) -> tuple[int, dict[str, str]] | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return None


class _Staying(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def status(port: int, cookie: str) -> int:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Cookie": cookie})
    try:
        with urllib.request.build_opener(_Staying()).open(asked, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def signed_in(ground: Path, server: Cluster) -> str:
    """A session that one node began, as a cookie."""
    made = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("ada", password="a-long-enough-word"))
print("cookie", client.cookies["sessionid"].value)
"""
    done = manage(ground, address(server), "shell", "-c", made)
    assert done.returncode == 0, done.stderr
    return f"sessionid={done.stdout.split()[-1]}"


@contextmanager
def pooled(ground: Path, server: Cluster, mode: str) -> Iterator[str]:
    """The address of PgBouncer before the server, in this mode."""
    assert PGBOUNCER
    folder = Path(tempfile.mkdtemp(dir=ground, prefix=f"{mode}-"))
    folder.chmod(0o711)
    password = server.passfile.read_text().strip().rpartition(":")[2]
    port = free_port()
    (folder / "users").write_text(f'"{paths.ROLE}" "{password}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"""[databases]
{paths.DATABASE} = host='{server.socket}' port=5432 dbname={paths.DATABASE}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder / "users"}
pool_mode = {mode}
default_pool_size = 20
query_wait_timeout = 2
server_login_retry = 1
"""
    )
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (folder, *folder.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    becoming = server.account.process_options()
    with subprocess.Popen(
        [PGBOUNCER, "-q", str(folder / "pgbouncer.ini")], cwd=folder, stderr=subprocess.DEVNULL, **becoming
    ) as process:
        url = f"postgresql://{paths.ROLE}:{password}@127.0.0.1:{port}/{paths.DATABASE}"
        try:
            wait_for(lambda: psycopg.pq.PGconn.ping(url.encode()) == psycopg.pq.Ping.OK)
            yield url
        finally:
            process.kill()


@pytest.mark.skipif(not PGBOUNCER, reason="no pgbouncer was found")
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pool_of_transactions_is_refused_in_a_sentence(ground: Path, server: Cluster, mode: str) -> None:
    with served(server), pooled(ground, server, mode) as url:
        refused = manage(ground, url, "check_memory")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(POOLED)
    assert refused.stderr.count("\n") == 1


@pytest.mark.skipif(not PGBOUNCER, reason="no pgbouncer was found")
def test_nothing_starts_on_a_pool_of_transactions(ground: Path, server: Cluster) -> None:
    """In one mode: they ask in the same way, and starting them takes long."""
    with served(server), pooled(ground, server, "transaction") as url:
        refused = manage(ground, url, "up", "--port", str(free_port()))
        assert refused.returncode == 1
        assert POOLED in refused.stderr
        with worker(ground, url) as first, beat(ground, url) as second, web("web", ground, url, free_port()) as third:
            for each in (first, second, third):
                assert each.end() == 1
                # Celery warns root of root before it, and makes a line of the log of it.
                assert POOLED in each.log.read_text().splitlines()[-1]
                assert "Traceback" not in each.log.read_text()


@pytest.mark.skipif(not PGBOUNCER, reason="no pgbouncer was found")
def test_a_pool_of_sessions_works(ground: Path, server: Cluster) -> None:
    with served(server), pooled(ground, server, "session") as url:
        done = manage(ground, url, "check_memory")
        assert (done.returncode, done.stderr) == (0, "")
        port = free_port()
        with web("web", ground, url, port):
            assert wait_for(lambda: ready_of(port))["database"] == "ok"


@pytest.mark.skipif(not PGBOUNCER, reason="no pgbouncer was found")
def test_a_worker_that_starts_while_the_database_behind_a_pool_is_away_waits_for_it(
    ground: Path, server: Cluster
) -> None:
    """PgBouncer says it with the code that it has for what its mode forbids."""
    with pooled(ground, server, "session") as url:
        with served(server), psycopg.connect(url) as known:
            known.execute("SELECT 1")
        with worker(ground, url) as started:
            wait_for(lambda: started.count("The database cannot be reached: "))
            with served(server):
                wait_for(lambda: started.count("The database is back after"))
            assert (started.count(POOLED), started.count("Traceback")) == (0, 0)
