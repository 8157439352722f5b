"""The data folder and the embedded database in it: closed to other accounts, usable by the database's account."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.lease import Lease
from memoryapp.platform.embedded.paths import Account, Cluster
from memoryapp.platform.environment import SettingError
from tests.embedded.cluster_use import AS_ROOT, USER, answers, await_end, connect, postmaster


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
