"""The embedded server: there while anybody uses it, gone when nobody does, whatever was killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from memoryapp.embedded import file_locks, paths, processes
from memoryapp.embedded.lease import Lease
from memoryapp.embedded.paths import Account, Cluster, ServerError
from memoryapp.embedded.server import Server
from memoryapp.environment import SettingError
from tests.support.clock import PATIENCE

AS_ROOT = os.geteuid() == 0
USER = """
import sys
from pathlib import Path
from memoryapp.embedded.lease import Lease
from memoryapp.embedded.paths import Cluster
with Lease(Cluster(Path(sys.argv[1]), throwaway=len(sys.argv) > 2)):
    print("up", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A folder with a space in its name that any account may pass through (pytest's own are closed)."""
    with tempfile.TemporaryDirectory(prefix="mnemoscope embedded ") as name:
        os.chmod(name, 0o711)
        yield Path(name).resolve()


@pytest.fixture
def folder(ground: Path) -> Path:
    """A new folder in it."""
    made = Path(tempfile.mkdtemp(dir=ground))
    made.chmod(0o711)
    return made


@pytest.fixture
def cluster(ground: Path) -> Iterator[Cluster]:
    """A cluster that no process uses, neither before nor afterwards; its data stays from test to test."""
    made = Cluster(ground / "postgres")
    yield made
    await_end(made)


def user(cluster: Cluster) -> subprocess.Popen[str]:
    """Another process that uses the server; ends when its input is closed."""
    arguments = [str(cluster.base), *(["throwaway"] if cluster.throwaway else [])]
    return subprocess.Popen(
        [sys.executable, "-c", USER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=paths.CHECKOUT,
        env={**os.environ, "LANG": "C", "LC_ALL": "C"},
    )


def await_up(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate()


def await_end(cluster: Cluster) -> None:
    """Waits for the supervisor's end, and for the processes it may have lost."""
    if (cluster.base / file_locks.SUPERVISOR).exists():
        with file_locks.opened(cluster.base / file_locks.SUPERVISOR) as lock:
            file_locks.acquire(lock)
    eventually(lambda: not server_processes(cluster))


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def server_processes(cluster: Cluster) -> list[int]:
    return [
        pid
        for pid, line in processes.command_lines()
        if f"/postgres -D {cluster.data} " in line or f" {cluster.name}: " in line
    ]


def postmaster(cluster: Cluster) -> int:
    return int((cluster.data / "postmaster.pid").read_text().split()[0])


def supervisor(cluster: Cluster) -> int:
    return int((cluster.base / file_locks.SUPERVISOR).read_text())


def connect(cluster: Cluster, **more: str) -> psycopg.Connection:
    """As the program connects."""
    database = "postgres" if cluster.throwaway else paths.DATABASE
    who = {"user": paths.ROLE, "dbname": database, "passfile": str(cluster.passfile), **more}
    return psycopg.connect(host=str(cluster.socket), **who, autocommit=True)


def answers(cluster: Cluster) -> bool:
    try:
        with connect(cluster) as connection:
            return connection.execute("select 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_cyrillic_lower_cases_and_stems_under_any_locale(cluster: Cluster) -> None:
    someone = user(cluster)
    await_up(someone)
    with connect(cluster) as connection:
        row = connection.execute("select lower('ПРИВЕТ'), to_tsvector('russian', 'КОШКИ')::text").fetchone()
    leave(someone)
    assert row == ("привет", "'кошк':1")


def test_the_server_has_no_port_and_a_private_socket(cluster: Cluster) -> None:
    with Lease(cluster), connect(cluster) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
        assert stat.S_IMODE(cluster.socket.stat().st_mode) == 0o700


def test_a_new_cluster_holds_the_database_and_can_hold_vectors(cluster: Cluster) -> None:
    with Lease(cluster), connect(cluster) as connection:
        assert connection.execute("select '[1,2]'::halfvec <=> '[1,2]'").fetchone() == (0.0,)


def test_the_program_is_no_superuser_and_owns_its_database(cluster: Cluster) -> None:
    with Lease(cluster), connect(cluster) as connection:
        connection.execute("create table own as select 1; drop table own")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("set session_replication_role = replica")
        rights = connection.execute("select rolsuper, rolcreaterole from pg_roles where rolname = current_user")
        assert rights.fetchone() == (False, False)


@pytest.mark.parametrize("user", [paths.ROLE, paths.SUPERUSER])
def test_without_the_password_nobody_connects(cluster: Cluster, user: str) -> None:
    with Lease(cluster):
        with pytest.raises(psycopg.OperationalError, match="no password supplied|no pg_hba.conf entry"):
            connect(cluster, user=user, passfile="/dev/null")
        for words in ("", "wrong"):
            with pytest.raises(psycopg.OperationalError, match=r"no password supplied|authentication failed|pg_hba"):
                connect(cluster, user=user, passfile="/dev/null", password=words)
        assert stat.S_IMODE(cluster.passfile.stat().st_mode) == 0o600
        assert cluster.passfile.stat().st_uid == cluster.access.stat().st_uid == os.geteuid()


def test_a_lost_password_is_made_anew(cluster: Cluster) -> None:
    with Lease(cluster):
        before = cluster.passfile.read_text()
    await_end(cluster)
    cluster.passfile.unlink()
    with Lease(cluster):
        assert answers(cluster)
        assert cluster.passfile.read_text() != before


def test_what_an_earlier_version_made_as_superuser_is_handed_over(folder: Path) -> None:
    """Its one role was the superuser, and whoever reached the socket was let in."""
    old = Cluster(folder / "postgres")
    paths.open_folder(old.base, 0o711)
    server = Server(old)
    server._make()
    made = (
        "CREATE EXTENSION vector",
        "CREATE TABLE topic (id bigint GENERATED BY DEFAULT AS IDENTITY, number serial, vector halfvec(2))",
        "CREATE VIEW seen AS SELECT id FROM topic",
        "CREATE SEQUENCE loose",
        "CREATE FUNCTION law() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER kept BEFORE INSERT ON topic FOR EACH ROW EXECUTE FUNCTION law()",
        "INSERT INTO topic (vector) VALUES ('[1,2]')",
    )
    server._run("postgres", "--single", "-D", old.data, paths.DATABASE, script="\n".join((*made, "")))
    with Lease(old), connect(old) as connection:
        assert connection.execute("select number, vector::text from topic").fetchone() == (1, "[1,2]")
        connection.execute("alter table topic add column summary text; insert into topic (summary) values ('tea')")
        connection.execute("create or replace view seen as select id from topic where id > 0; drop sequence loose")
        connection.execute("drop function law cascade")
    await_end(old)


def test_the_second_user_shares_and_the_last_one_out_stops_it(cluster: Cluster) -> None:
    first, second = user(cluster), user(cluster)
    await_up(first)
    await_up(second)
    one = postmaster(cluster)
    leave(first)
    assert answers(cluster)
    assert postmaster(cluster) == one
    leave(second)
    await_end(cluster)


def test_many_that_start_at_once_get_one_server(cluster: Cluster) -> None:
    together = [user(cluster) for _ in range(4)]
    for process in together:
        await_up(process)
    assert len([line for _, line in processes.command_lines() if f"/postgres -D {cluster.data} " in line]) == 1
    for process in together:
        leave(process)


def test_whoever_comes_while_it_stops_gets_a_new_one(cluster: Cluster) -> None:
    for _ in range(3):
        with Lease(cluster):
            assert answers(cluster)


def test_a_killed_user_leaves_no_server(cluster: Cluster) -> None:
    someone = user(cluster)
    await_up(someone)
    someone.kill()
    leave(someone)
    await_end(cluster)


def test_a_killed_server_comes_back_with_what_was_committed(cluster: Cluster) -> None:
    with Lease(cluster):
        with connect(cluster) as connection:
            connection.execute("create table survived as select 1 as one")
        before = postmaster(cluster)
        os.kill(before, signal.SIGKILL)
        eventually(lambda: answers(cluster) and postmaster(cluster) != before)
        with connect(cluster) as connection:
            assert connection.execute("select one from survived").fetchone() == (1,)


def test_a_killed_supervisor_is_replaced_and_takes_its_server_along(cluster: Cluster) -> None:
    with Lease(cluster) as lease:
        before = postmaster(cluster)
        os.kill(supervisor(cluster), signal.SIGKILL)
        await_end(cluster)
        lease.revive()
        assert answers(cluster)
        assert postmaster(cluster) != before


def test_a_start_after_everything_was_killed_recovers(cluster: Cluster) -> None:
    someone = user(cluster)
    await_up(someone)
    with connect(cluster) as connection:
        connection.execute("create table kept as select 1 as one")
    for pid in (someone.pid, supervisor(cluster), *server_processes(cluster)):
        processes.send(pid, signal.SIGKILL)
    leave(someone)
    with Lease(cluster), connect(cluster) as connection:
        assert connection.execute("select one from kept").fetchone() == (1,)


def test_the_mark_of_a_zombie_does_not_block_the_start(cluster: Cluster) -> None:
    with Lease(cluster):
        mark = (cluster.data / "postmaster.pid").read_text()
    await_end(cluster)
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        left = mark.replace(mark.split()[0], str(zombie.pid), 1)
        (cluster.data / "postmaster.pid").write_text(left)
        (cluster.socket / ".s.PGSQL.5432.lock").write_text(left)
        with Lease(cluster):
            assert answers(cluster)


def test_a_path_too_long_for_a_socket_works(folder: Path) -> None:
    deep = Cluster(folder / ("long" * 40) / "postgres", throwaway=True)
    with Lease(deep):
        assert answers(deep)
        assert deep.socket.parent == Path("/tmp")
    await_end(deep)
    assert not deep.socket.exists()


def test_a_cluster_of_another_version_is_refused_in_a_sentence(folder: Path) -> None:
    old = Cluster(folder / "postgres")
    old.data.mkdir(parents=True)
    (old.data / "PG_VERSION").write_text("15\n")
    if AS_ROOT:
        with pytest.raises(ServerError, match="belongs to root"), Lease(old):
            pass
        shutil.chown(old.data, "nobody")
    with pytest.raises(ServerError, match="made by PostgreSQL 15"), Lease(old):
        pass


def test_every_process_computes_the_same_address(folder: Path) -> None:
    command = "from memoryapp.embedded import paths; print(paths.embedded_database(paths.data_dir())['HOST'])"
    environment = {**os.environ, "DATA_DIR": str(folder / "data")}
    said = {
        subprocess.run(
            [sys.executable, "-c", command], cwd=paths.CHECKOUT, env=environment, capture_output=True, text=True
        ).stdout.strip()
        for _ in range(2)
    }
    assert said == {str(folder / "data" / "postgres" / "socket")}


@pytest.mark.skipif(not AS_ROOT, reason="only root runs the server as somebody else")
def test_a_folder_closed_to_others_stays_closed_and_the_cluster_lies_elsewhere(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    cluster = paths.cluster(closed / "data")
    assert cluster.base.is_relative_to(paths.ELSEWHERE)
    assert paths.cluster(closed / "data") == cluster
    try:
        with Lease(cluster):
            assert answers(cluster)
    finally:
        await_end(cluster)
        shutil.rmtree(cluster.base)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_a_data_folder_is_closed_to_others(folder: Path) -> None:
    data = folder / "my data"
    paths.secret_key(data)
    inside = paths.cluster(data)
    assert inside.base == data / "postgres"
    # Root's is passed through by a group that no account is in.
    closed = 0o710 if AS_ROOT else 0o700
    assert stat.S_IMODE(data.stat().st_mode) == closed
    assert not AS_ROOT or data.stat().st_gid == inside.account.gid
    data.chmod(0o755)
    paths.close_data_dir(data, inside)
    assert stat.S_IMODE(data.stat().st_mode) == closed
    with Lease(inside):
        assert answers(inside)
    await_end(inside)


def reading(path: Path, account: Account) -> int:
    """The exit code of a process of that account that reads the file."""
    return subprocess.run(["cat", str(path)], capture_output=True, cwd="/", **account.becoming()).returncode


@pytest.mark.skipif(not AS_ROOT, reason="only root runs the server as somebody else")
@pytest.mark.parametrize("made_as_nobody", [False, True])
def test_processes_of_nobody_read_none_of_the_files_and_do_not_reach_the_socket(
    folder: Path, made_as_nobody: bool
) -> None:
    nobody, data = pwd.getpwnam("nobody"), folder / "data"
    paths.secret_key(data)
    inside = paths.cluster(data)
    with Lease(inside):
        pass
    await_end(inside)
    if made_as_nobody:  # as earlier versions left it
        for path in (data, *inside.data.rglob("*"), inside.data, inside.socket):
            os.chown(path, -1 if path == data else nobody.pw_uid, nobody.pw_gid)
    with Lease(inside):
        assert answers(inside)
        account = inside.account
        assert (account.uid, account.is_unlisted) == (inside.data.stat().st_uid, True)
        assert stat.S_IMODE(inside.data.stat().st_mode) == 0o700
        files = (inside.data / "postgresql.conf", inside.data / "global" / "pg_control", inside.passfile)
        for file in files:
            assert reading(file, Account(nobody.pw_uid, nobody.pw_gid)) != 0
            # Nor where the data folder were passed through.
            assert reading(file, Account(nobody.pw_uid, account.gid)) != 0
        assert reading(files[0], account) == 0
        ready = [paths.binaries(account) / "pg_isready", "-h", inside.socket, "-t", "5", "-U", paths.ROLE]
        reached = [
            subprocess.run(ready, capture_output=True, cwd="/", **who.becoming()).returncode
            for who in (account, Account(nobody.pw_uid, account.gid))
        ]
        assert reached == [0, 2]  # 2: no answer
    await_end(inside)


def test_a_data_folder_whose_database_lies_elsewhere_is_closed_to_all(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for server in (None, Cluster(paths.ELSEWHERE / "clusters" / "an-id")):
        data.chmod(0o755)
        paths.close_data_dir(data, server)
        assert stat.S_IMODE(data.stat().st_mode) == 0o700


@pytest.mark.parametrize("taken", ["file", "file/below"])
def test_a_data_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, taken: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match=r"The data folder .* can't be made: [^\n]*\.$"):
        paths.open_data_dir(tmp_path / taken)


@pytest.mark.skipif(not AS_ROOT, reason="only root runs the server as somebody else")
def test_programs_in_a_closed_folder_are_copied_to_where_they_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "ELSEWHERE", folder / "elsewhere")
    monkeypatch.setattr(Account, "runs", lambda *_: False)
    account = Cluster(folder / "postgres").account
    program = paths.binaries(account) / "postgres"
    assert program.is_relative_to(folder)
    subprocess.run([program, "--version"], check=True, capture_output=True, cwd="/", **account.becoming())
    assert paths.binaries(account) / "postgres" == program


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user runs all these tests as one")
def test_an_ordinary_user_has_a_server_of_their_own(folder: Path) -> None:
    someone = Account(65534, 65534)
    packages = Path(psycopg.__file__).parents[1]
    environment = {"PYTHONPATH": f"{paths.CHECKOUT}:{packages}", "LC_ALL": "C"}
    python = _python_for(someone, environment)
    if python is None:
        pytest.skip("this checkout or its Python lies in a folder that is closed to an ordinary user")
    os.chown(folder, someone.uid, someone.gid)
    done = subprocess.run(
        [python, "-c", USER, str(folder / "postgres"), "throwaway"],
        input="",
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
        **someone.becoming(),
    )
    assert (done.stdout, done.stderr, done.returncode) == ("up\n", "", 0)


def _python_for(account: Account, environment: dict[str, str]) -> str | None:
    """A Python of 3.11 or newer that this account may run on this checkout (root's may lie in a folder of root's)."""
    check = "import sys, memoryapp, psycopg; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = subprocess.run(
                [python, "-c", check], capture_output=True, cwd="/", env=environment, **account.becoming()
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    return None
