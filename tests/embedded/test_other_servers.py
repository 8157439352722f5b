"""A backup of another PostgreSQL than the embedded one: restored into its own version and a newer one, never an older.

The package with the embedded server has PostgreSQL 16 beside it. Debian's is tried where it has pgvector.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.paths import Account
from tests.embedded.test_deployment import environment
from tests.support import forked

pytestmark = [pytest.mark.slow, pytest.mark.processes]
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
