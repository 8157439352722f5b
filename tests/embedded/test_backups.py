"""A backup of a running program, restored elsewhere; what is no backup, and what stands in the way, is a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.lease import Lease
from tests.embedded import kept
from tests.embedded.cluster_use import connect
from tests.support.stack import CHECKOUT, Stack, wait_for

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
    "older": "made by a version before 0.15.1: restore it with 0.15.1",
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
    back = [sys.executable, "manage.py", "migrate", "memoryapp", "0002"]
    assert subprocess.run(back, cwd=CHECKOUT, env=older, capture_output=True).returncode == 0
    (data / "backups").mkdir()
    for day in (1, 2, 3):
        (data / "backups" / f"before-2026010{day}T000000-0001.backup").touch()
    started = Stack(data, "--no-demo", WEB_CONCURRENCY="1")
    try:
        (made,) = (data / "backups").glob("before-*-0002.backup")
        assert len(list((data / "backups").glob("before-*.backup"))) == 2
        assert any("Backing up into" in line for line in started.lines)
        assert "database.dump" in zipfile.ZipFile(made).namelist()
    finally:
        assert started.stop() == 0
