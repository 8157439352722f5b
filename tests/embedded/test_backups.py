"""Backups: of a running program, of another PostgreSQL, killed at any step; restored, or refused in a sentence."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.lease import Lease
from memoryapp.platform.embedded.paths import Account
from tests.embedded import kept
from tests.embedded.cluster_use import await_end, connect
from tests.embedded.test_deployment import environment
from tests.support import forked
from tests.support.stack import CHECKOUT, Stack, free_port, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    started = Stack(tmp_path_factory.mktemp("backup") / "data", "--no-demo", WEB_CONCURRENCY="1")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    return kept.fill(stack)


@pytest.fixture(scope="module")
def backup(stack: Stack, token: str) -> Path:
    target = stack.folder.parent / "all.backup"
    made = stack.json("backup", str(target))
    assert (made["files"], made["bytes"]) == (1, target.stat().st_size)
    assert target.stat().st_mode & 0o077 == 0
    assert [path.name for path in target.parent.glob(".all*")] == []
    return target


def ran(stack: Stack, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in stack.environment.items() if name != "DATA_DIR"} | more
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)


def test_what_was_backed_up_while_it_ran_goes_on_elsewhere(
    stack: Stack, token: str, backup: Path, tmp_path: Path
) -> None:
    done = ran(stack, "restore", str(backup), "--data-dir", str(tmp_path / "data"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == 1
    restored = Stack(tmp_path / "data", "--no-demo", WEB_CONCURRENCY="1")
    try:
        with kept.client_of(stack, token) as first, kept.client_of(restored, token) as second:
            assert second.get(kept.MESSAGES).json() == first.get(kept.MESSAGES).json()
            asked = {"user": "Анна", "query": "Weltmeister accordion", "strategy": "vector"}
            recalls = [client.post("/v1/recall", json=asked).json() for client in (first, second)]
            found = [[topic["summary"] for topic in recall["topics"]] for recall in recalls]
            assert found[0] == found[1] != [], recalls
        assert restored.command("check_memory").returncode == 0
        assert kept.files_of(tmp_path / "data") == kept.files_of(stack.folder)
        again = ran(stack, "restore", str(backup), "--data-dir", str(tmp_path / "data"))
        assert (again.returncode, "has tables already" in again.stderr) == (1, True)
    finally:
        assert restored.stop() == 0


@pytest.mark.parametrize("fault", ["cut", "other", "newer", "outside", "damaged", "missing"])
def test_what_cannot_be_restored_is_refused_and_leaves_nothing(
    stack: Stack, backup: Path, tmp_path: Path, fault: str
) -> None:
    source, data = tmp_path / "file.backup", tmp_path / "data"
    if fault != "missing":
        FAULTS[fault](backup, source)
    done = ran(stack, "restore", str(source), "--data-dir", str(data))
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (1, 1), done.stderr
    assert SENTENCES[fault] in done.stderr
    whole = ran(stack, "restore", str(backup), "--data-dir", str(data))
    assert whole.returncode == 0, whole.stderr


def test_a_restore_waits_for_what_a_killed_one_began_on_the_server(stack: Stack, backup: Path, tmp_path: Path) -> None:
    """The tool of the killed one is committing: its files belong to the database that is there in a moment."""
    data, cluster = tmp_path / "data", paths.cluster(tmp_path / "data")
    with Lease(cluster), connect(cluster) as watching:
        (data / "files").mkdir()
        for left in (data / "restoring", data / "files" / "picture"):
            left.touch()
        with connect(cluster, application_name="pg_restore") as killed, ThreadPoolExecutor(1) as later:
            killed.execute("BEGIN")
            killed.execute("CREATE TABLE restored ()")
            done = later.submit(ran, stack, "restore", str(backup), "--data-dir", str(data))
            asking = "SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%pg_restore%'"
            wait_for(lambda: watching.execute(asking).rowcount)
            killed.execute("COMMIT")
            killed.close()
        assert "has tables already" in done.result().stderr
    assert (data / "files" / "picture").exists()


def changed(source: Path, target: Path, **members: Any) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name not in members:
                new.writestr(name, old.read(name))
        for name, content in members.items():
            new.writestr(name, content)


def from_the_future(source: Path, target: Path) -> None:
    manifest = json.loads(zipfile.ZipFile(source).read("manifest.json"))
    manifest["migrations"].append("memoryapp.9999_not_yet")
    changed(source, target, **{"manifest.json": json.dumps(manifest)})


def from_before_the_first_migration(source: Path, target: Path) -> None:
    manifest = json.loads(zipfile.ZipFile(source).read("manifest.json"))
    manifest["migrations"] = ["auth.0001_initial", "memoryapp.0001_memory", "memoryapp.0002_doors_and_curation"]
    changed(source, target, **{"manifest.json": json.dumps(manifest)})


def half_a_dump(source: Path, target: Path) -> None:
    dump = zipfile.ZipFile(source).read("database.dump")
    changed(source, target, **{"database.dump": dump[: len(dump) // 2]})


FAULTS: Any = {
    "cut": lambda source, target: target.write_bytes(source.read_bytes()[:-100]),
    "other": lambda source, target: changed(source, target, **{"manifest.json": "{}"}),
    "newer": from_the_future,
    "older": from_before_the_first_migration,
    "outside": lambda source, target: changed(source, target, **{"files/../../evil": b"x"}),
    "damaged": half_a_dump,
}
SENTENCES = {
    "cut": "is no backup, or not a whole one",
    "other": "is no backup of this program",
    "newer": "made by a newer version of this program, which made memoryapp.9999_not_yet",
    "older": "made by a version before 0.17.1: restore it with 0.17.1",
    "outside": "holds a file that is none of this program's",
    "damaged": "The database cannot be restored",
    "missing": "cannot be read: No such file",
}


def test_a_backup_that_cannot_be_written_is_a_sentence(stack: Stack, token: str) -> None:
    done = stack.command("backup", "/nowhere/at/all.backup")
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True)


def test_an_upgrade_begins_with_a_backup(stack: Stack, token: str, backup: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert ran(stack, "restore", str(backup), "--data-dir", str(data)).returncode == 0
    older = {**stack.environment, "DATA_DIR": str(data)}
    back = [sys.executable, "manage.py", "migrate", "memoryapp", "0001"]
    assert subprocess.run(back, cwd=CHECKOUT, env=older, capture_output=True).returncode == 0
    (data / "backups").mkdir()
    for day in (1, 2, 3):
        (data / "backups" / f"before-2026010{day}T000000-0000.backup").touch()
    started = Stack(data, "--no-demo", WEB_CONCURRENCY="1")
    try:
        (made,) = (data / "backups").glob("before-*-0001.backup")
        assert len(list((data / "backups").glob("before-*.backup"))) == 2
        assert any("Backing up into" in line for line in started.lines)
        assert "database.dump" in zipfile.ZipFile(made).namelist()
    finally:
        assert started.stop() == 0


# Backup, restore and upgrade killed at any step: the old state or the new one remains, and the next call works.


# How many points of the way a command is killed at.
points = pytest.mark.parametrize("points", [pytest.param(3, id="few"), pytest.param(20, marks=pytest.mark.thorough)])
# The tables of an earlier version.
EARLIER = "0001"


@dataclass(frozen=True)
class Ended:
    """A program that has ended: its data, a backup of it, and what it knew."""

    data: Path
    backup: Path
    token: str
    messages: str
    environment: dict[str, str]

    def run(self, data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return forked.run([forked.MANAGE, *arguments], self.environment | {"DATA_DIR": str(data)})

    def copied(self, target: Path) -> Path:
        """Another data folder with the same content."""
        subprocess.run(["cp", "-a", str(self.data), str(target)], check=True)
        return target

    def killed(self, last: int, data: Path, folder: Path, *arguments: str) -> list[str]:
        """The steps of the command before it was killed at this one, or all of them."""
        steps = data.with_name(f"{data.name}.steps")
        steps.unlink(missing_ok=True)
        command = ["tests.embedded.dying", str(last), str(steps), str(folder), *arguments]
        done = forked.run(command, self.environment | {"DATA_DIR": str(data)})
        assert done.returncode in (0, -9), done.stderr
        await_end(paths.cluster(data))
        return steps.read_text().splitlines()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("kills")
    stack = Stack(folder / "data", "--no-demo", WEB_CONCURRENCY="1")
    try:
        token = kept.fill(stack)
        stack.json("backup", str(folder / "all.backup"))
        with kept.client_of(stack, token) as client:
            messages = client.get(kept.MESSAGES).raise_for_status().text
    finally:
        assert stack.stop() == 0
    await_end(paths.cluster(stack.folder))
    own = {**stack.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    return Ended(stack.folder, folder / "all.backup", token, messages, own)


def spread(total: int, count: int) -> list[int]:
    """So many numbers between 1 and ``total``, at equal distances."""
    assert total >= count, total
    return [1 + place * (total - 1) // (count - 1) for place in range(count)]


def is_whole(backup: Path) -> bool:
    with zipfile.ZipFile(backup) as archive:
        return archive.testzip() is None and "manifest.json" in archive.namelist()


@points
def test_a_restore_leaves_nothing_or_all(ended: Ended, tmp_path: Path, points: int) -> None:
    def restored(last: int) -> tuple[Path, list[str]]:
        data = tmp_path / f"data{last}"
        return data, ended.killed(last, data, data, "restore", str(ended.backup))

    _, steps = restored(0)
    for last in spread(len(steps), points):
        data, taken = restored(last)
        again = ended.run(data, "restore", str(ended.backup))
        assert again.returncode == 0 or "has tables already" in again.stderr, (taken[-1], again.stderr)
        assert kept.files_of(data) == kept.files_of(ended.data), taken[-1]
        assert not (data / "restoring").exists(), taken[-1]
        checked = ended.run(data, "check_memory", "--json")
        assert json.loads(checked.stdout)["violations"] == [], (taken[-1], checked.stderr)
        counting = ended.run(
            data, "shell", "-c", "from memoryapp.models import Message; print(Message.objects.count())"
        )
        assert counting.stdout.split()[-1] == "1", (taken[-1], counting.stderr)
        await_end(paths.cluster(data))
        shutil.rmtree(data)


@points
def test_a_backup_is_the_earlier_one_or_whole(ended: Ended, tmp_path: Path, points: int) -> None:
    data, target = ended.copied(tmp_path / "data"), tmp_path / "backups" / "all.backup"
    target.parent.mkdir()
    for last in spread(len(ended.killed(0, data, target.parent, "backup", str(target))), points):
        shutil.copyfile(ended.backup, target)
        taken = ended.killed(last, data, target.parent, "backup", str(target))
        assert target.read_bytes() == ended.backup.read_bytes() or is_whole(target), taken[-1]
        again = ended.run(data, "backup", str(target))
        assert (again.returncode, is_whole(target)) == (0, True), (taken[-1], again.stderr)
    restored = ended.run(tmp_path / "restored", "restore", str(target))
    assert (restored.returncode, kept.files_of(tmp_path / "restored")) == (0, kept.files_of(ended.data))


@pytest.fixture(scope="module")
def earlier(ended: Ended, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The same program with the tables of an earlier version."""
    data = ended.copied(tmp_path_factory.mktemp("earlier") / "data")
    assert ended.run(data, "migrate", "memoryapp", EARLIER).returncode == 0
    await_end(paths.cluster(data))
    return Ended(data, ended.backup, ended.token, ended.messages, ended.environment)


@points
def test_an_upgrade_goes_on_after_its_backup(earlier: Ended, tmp_path: Path, points: int) -> None:
    def upgraded(last: int) -> tuple[Path, list[str]]:
        data = earlier.copied(tmp_path / f"data{last}")
        arguments = ("up", "--no-demo", "--port", str(free_port()))
        # Of the files only the backup's, because the static ones are thousands.
        return data, earlier.killed(last, data, data / "backups", *arguments)

    _, steps = upgraded(0)
    assert any("daphne" in step or "python" in step for step in steps[-1:]), steps[-1]
    for last in spread(len(steps), points):
        data, taken = upgraded(last)
        made = list((data / "backups").glob("before-*.backup"))
        assert all(map(is_whole, made)), taken[-1]
        assert made or not any(step.startswith("ALTER TABLE") for step in taken), taken[-1]
        started = Stack(data, "--no-demo", WEB_CONCURRENCY="1")
        try:
            with kept.client_of(started, earlier.token) as client:
                assert client.get(kept.MESSAGES).text == earlier.messages, taken[-1]
            assert started.json("check_memory")["violations"] == [], taken[-1]
        finally:
            assert started.stop() == 0
        assert os.listdir(data / "backups") != [], taken[-1]
        assert not list((data / "backups").glob(".before-*")), taken[-1]
        await_end(paths.cluster(data))
        shutil.rmtree(data)


def test_a_migration_is_recorded_with_what_it_made(ended: Ended, tmp_path: Path) -> None:
    """Killed before a migration is recorded whose foreign keys come last, it is made again as a whole."""
    first = ended.copied(tmp_path / "first")
    assert ended.run(first, "migrate", "memoryapp", "0001").returncode == 0
    await_end(paths.cluster(first))
    older = replace(ended, data=first)

    def migrated(last: int) -> tuple[Path, list[str]]:
        data = older.copied(tmp_path / f"data{last}")
        return data, older.killed(last, data, data, "migrate")

    _, steps = migrated(0)
    recorded = next(place for place, step in enumerate(steps, 1) if step.startswith('INSERT INTO "django_migrations"'))
    assert any(step.startswith("CREATE TABLE") for step in steps[:recorded])
    data, _ = migrated(recorded)
    again = older.run(data, "migrate")
    assert again.returncode == 0, again.stderr


# A backup of another PostgreSQL than the embedded one: restored into its own version and a newer one, never an
# older.


_PACKAGE = paths.binaries(Account(os.geteuid(), os.getegid())).parent.parent
SERVERS = {"16": _PACKAGE / "pginstall" / "bin", "debian 15": Path("/usr/lib/postgresql/15/bin")}
EMBEDDED = _PACKAGE / f"pginstall{paths.MAJOR}" / "bin"
FACT = "The shed key hangs behind the barometer."
FILL = f"""
from django.utils import timezone
from memoryapp.memory.content import found_or_made
from memoryapp.models import Fact
owner = found_or_made("anna")
Fact.objects.create(owner=owner, content={FACT!r}, importance=50, created_at=timezone.now())
"""
READ = "from memoryapp.models import Fact; print(*Fact.objects.values_list('content', flat=True))"


@contextmanager
def serving(binaries: Path) -> Iterator[str]:
    """The address of an empty database of the server with these programs, in which vectors can be made."""
    with tempfile.TemporaryDirectory(prefix="other ", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        account = Account(65_534, 65_534) if os.geteuid() == 0 else Account(os.geteuid(), os.getegid())
        options = {**account.process_options(), "check": True, "capture_output": True, "cwd": "/"}
        data = folder / "data"
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "app", "-A", "trust", "-E", "UTF8", "--no-sync"], **options
        )
        served = f"-c listen_addresses= -c unix_socket_directories='{folder}' -c fsync=off"
        control = [binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
        subprocess.run([*control, "-o", served, "start"], **{**options, "capture_output": False})
        try:
            with psycopg.connect(host=name, user="app", dbname="postgres", autocommit=True) as database:
                database.execute("CREATE DATABASE memory")
            with psycopg.connect(host=name, user="app", dbname="memory", autocommit=True) as database:
                database.execute("CREATE EXTENSION vector")
            yield f"postgresql:///memory?user=app&host={name.replace(' ', '%20')}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **options)


def manage(folder: Path, binaries: Path, address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{binaries}:{os.environ['PATH']}"
    return forked.run([forked.MANAGE, *arguments], environment(folder, address, DATABASE_WAIT="0", PATH=path))


def printed(folder: Path, binaries: Path, address: str, *arguments: str) -> str:
    done = manage(folder, binaries, address, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", SERVERS)
def test_a_backup_is_restored_into_its_own_version_and_a_newer_one(version: str, tmp_path: Path) -> None:
    binaries, backup = SERVERS[version], tmp_path / "memory.backup"
    if not (binaries / "postgres").exists():
        pytest.skip(f"PostgreSQL {version} is not installed")
    has_vector = any(binaries.parent.glob("share/**/vector.control"))
    if (
        "debian" in version
        and not has_vector
        and not Path("/usr/share/postgresql/15/extension/vector.control").exists()
    ):
        pytest.skip("pgvector is not installed for Debian's PostgreSQL 15")
    first, second, third = (tmp_path / each for each in ("first", "second", "third"))
    with serving(binaries) as address:
        printed(first, binaries, address, "migrate")
        printed(first, binaries, address, "shell", "--no-imports", "-c", FILL)
        assert "read back whole" in printed(first, binaries, address, "backup", str(backup))
        lacking = manage(first, EMBEDDED, address, "backup", str(tmp_path / "other.backup"))
        if version == "16":
            assert (lacking.returncode, "install postgresql-client-16" in " ".join(lacking.stderr.split())) == (1, True)
            assert not (tmp_path / "other.backup").exists()
    for server, folder in ((binaries, second), (EMBEDDED, third)):
        with serving(server) as address:
            printed(folder, server, address, "restore", str(backup))
            assert printed(folder, server, address, "shell", "--no-imports", "-c", READ).strip() == FACT
            if server == EMBEDDED:
                printed(folder, server, address, "backup", str(tmp_path / "newer.backup"))
    with serving(binaries) as address:
        refused = manage(tmp_path / "fourth", binaries, address, "restore", str(tmp_path / "newer.backup"))
        assert (refused.returncode, f"made from PostgreSQL {paths.MAJOR}" in refused.stderr) == (1, True)
        printed(tmp_path / "fourth", binaries, address, "restore", str(backup))
