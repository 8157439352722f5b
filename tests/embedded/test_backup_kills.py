"""Backup, restore and upgrade killed at any step: the old state or the new one remains, and the next call works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from memoryapp.platform.embedded import paths
from tests.embedded import kept
from tests.embedded.cluster_use import await_end
from tests.support import forked
from tests.support.stack import Stack, free_port

pytestmark = [pytest.mark.slow, pytest.mark.processes]

# How many points of the way a command is killed at.
points = pytest.mark.parametrize("points", [pytest.param(3, id="few"), pytest.param(20, marks=pytest.mark.thorough)])
# The tables of an earlier version.
EARLIER = "0002"


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
