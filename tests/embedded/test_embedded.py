"""The embedded server and its data folder: in use while any process needs it, closed to other accounts."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from memoryapp.platform.embedded import children, lease, paths
from memoryapp.platform.embedded.lease import Lease
from memoryapp.platform.embedded.paths import Account, Cluster, ServerError
from memoryapp.platform.environment import SettingError
from tests.embedded.cluster_use import (
    AS_ROOT,
    USER,
    answers,
    await_end,
    await_up,
    connect,
    eventually,
    leave,
    postmaster,
    server_processes,
    supervisor,
    user,
)


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


def test_the_page_cache_suits_the_machine(cluster: Cluster) -> None:
    quarter = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 // 2**20
    with Lease(cluster), connect(cluster) as connection:
        row = connection.execute("select pg_size_bytes(current_setting('shared_buffers')) / 1048576").fetchone()
    assert row == (min(max(quarter, 128), 1024),)


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
    assert len([line for _, line in children.command_lines() if f" cluster_name={cluster.name} " in line]) == 1
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


def test_a_server_that_is_killed_while_it_starts_again_comes_back_all_the_same(cluster: Cluster) -> None:
    with Lease(cluster):
        killed = {postmaster(cluster)}
        os.kill(postmaster(cluster), signal.SIGKILL)
        for _ in range(2):
            eventually(lambda: not killed.issuperset(server_processes(cluster)))
            for pid in server_processes(cluster):
                children.send(pid, signal.SIGKILL)
                killed.add(pid)
        eventually(lambda: answers(cluster))


def test_a_server_that_cannot_start_is_tried_again_until_it_can(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "FIRST_PAUSE", 0.01)
    sentences: list[str] = []
    version = cluster.data / "PG_VERSION"
    with Lease(cluster) as mine:
        revival, made_by = lease.Revival(mine), version.read_text()

        def tended() -> bool:
            revival.tend(sentences.append)
            return True

        os.kill(supervisor(cluster), signal.SIGKILL)
        await_end(cluster)
        version.write_text("15\n")
        eventually(lambda: tended() and len(sentences) > 1)
        assert "made by PostgreSQL 15" in sentences[0]
        assert sentences[0].endswith("Trying again in 0.01 s.")
        version.write_text(made_by)
        eventually(lambda: tended() and answers(cluster))


def test_a_start_after_everything_was_killed_recovers(cluster: Cluster) -> None:
    someone = user(cluster)
    await_up(someone)
    with connect(cluster) as connection:
        connection.execute("create table kept as select 1 as one")
    for pid in (someone.pid, supervisor(cluster), *server_processes(cluster)):
        children.send(pid, signal.SIGKILL)
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
    command = "from memoryapp.platform.embedded import paths; print(paths.embedded_database(paths.data_dir())['HOST'])"
    environment = {**os.environ, "DATA_DIR": str(folder / "data")}
    sockets = {
        subprocess.run(
            [sys.executable, "-c", command], cwd=paths.CHECKOUT, env=environment, capture_output=True, text=True
        ).stdout.strip()
        for _ in range(2)
    }
    assert sockets == {str(folder / "data" / "postgres" / "socket")}


# The data folder and the embedded database in it: closed to other accounts, usable by the database's account.


@pytest.mark.skipif(not AS_ROOT, reason="only root runs the server as somebody else")
def test_in_a_folder_that_is_closed_to_its_account_the_server_works_again_and_again(tmp_path: Path) -> None:
    """This includes a restart after a kill, several processes for a query, and access rules that are read again."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    cluster = paths.cluster(paths.open_data_dir(closed / "data"))
    assert cluster.base == closed / "data" / "postgres"
    for _ in range(2):
        with Lease(cluster), connect(cluster) as connection:
            connection.execute("set debug_parallel_query = on; create table if not exists kept (n int)")
            connection.execute("insert into kept select generate_series(1, 1000)")
            before = connection.execute("select sum(n) from kept").fetchone()
            os.kill(postmaster(cluster), signal.SIGHUP)
            assert answers(cluster)
            os.kill(postmaster(cluster), signal.SIGKILL)
        await_end(cluster)
    with Lease(cluster), connect(cluster) as connection:
        assert connection.execute("select sum(n) from kept").fetchone() == before == (1001000,)
    await_end(cluster)
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (closed, closed / "data")} == {0o700}


def test_a_data_folder_is_closed_to_others(folder: Path) -> None:
    data = folder / "my data"
    paths.secret_key(data)
    inside = paths.cluster(data)
    assert inside.base == data / "postgres"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    data.chmod(0o755)
    paths.close_data_dir(data)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    with Lease(inside):
        assert answers(inside)
    await_end(inside)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_a_cluster_that_an_earlier_version_put_elsewhere_is_used_on(tmp_path: Path, folder: Path) -> None:
    """Earlier versions did this when a folder above the data folder was closed to the database's account."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "ELSEWHERE", folder)
        data = paths.open_data_dir(tmp_path / "data")
        (data / "cluster-id").write_text("an-id")
        cluster = paths.cluster(data)
        assert cluster.base == folder / "clusters" / "an-id"
        with Lease(cluster):
            assert answers(cluster)
    await_end(cluster)


def reading(path: Path, account: Account) -> int:
    """Returns the exit code of a process of that account that reads the file."""
    return subprocess.run(["cat", str(path)], capture_output=True, cwd="/", **account.process_options()).returncode


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
        os.chown(data, -1, account.gid)
        data.chmod(0o710)  # as earlier versions did, so that the account may pass through
        assert (account.uid, account.is_unlisted) == (inside.data.stat().st_uid, True)
        assert stat.S_IMODE(inside.data.stat().st_mode) == 0o700
        files = (inside.data / "postgresql.conf", inside.data / "global" / "pg_control", inside.passfile)
        for file in files:
            assert reading(file, Account(nobody.pw_uid, nobody.pw_gid)) != 0
            # The account may not read it either where it may pass through the data folder.
            assert reading(file, Account(nobody.pw_uid, account.gid)) != 0
        assert reading(files[0], account) == 0
        ready = [paths.binaries(account) / "pg_isready", "-h", inside.socket, "-t", "5", "-U", paths.ROLE]
        reached = [
            subprocess.run(ready, capture_output=True, cwd="/", **who.process_options()).returncode
            for who in (account, Account(nobody.pw_uid, account.gid))
        ]
        assert reached == [0, 2]  # 2: no answer
    await_end(inside)


def test_a_folder_that_all_write_to_is_not_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    paths.close_data_dir(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


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
    subprocess.run([program, "--version"], check=True, capture_output=True, cwd="/", **account.process_options())
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
        **someone.process_options(),
    )
    assert (done.stdout, done.stderr, done.returncode) == ("up\n", "", 0)


def _python_for(account: Account, environment: dict[str, str]) -> str | None:
    """Returns a Python of 3.11 or newer that this account may run on this checkout (root's may be in a folder of
    root's)."""
    check = "import sys, memoryapp, psycopg; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = subprocess.run(
                [python, "-c", check], capture_output=True, cwd="/", env=environment, **account.process_options()
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    return None
