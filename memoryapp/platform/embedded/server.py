"""The embedded PostgreSQL: created once, started in the foreground, stopped fast, cleaned up after a crash.

Only the supervisor starts it, and holds its lock meanwhile, so at most one server is started on a cluster at a time.
There is no TCP port. The socket is in a folder that only its owner can enter, and accepts only the application's role
with its password, which is in ``passfile``. That role owns the database and is no superuser. The locale is
PostgreSQL's own for UTF-8, so Cyrillic text is lower-cased and stemmed under any ``LANG``."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from memoryapp.platform.embedded import children, paths
from memoryapp.platform.embedded.paths import DATABASE, ROLE, Account, Cluster, ServerError

# The SQL with which the superuser prepares the application's role, in single-user mode, in which nobody can connect.
#
# Each statement may run again. In ``postgres --single -j`` a statement ends with a semicolon and an empty line.

_ROLE = f"""
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN CREATE ROLE {ROLE}; END IF;
END $$"""
_LOGIN = f"ALTER ROLE {ROLE} LOGIN NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD '{{password}}'"
_EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector"
_DATABASE = f"ALTER DATABASE {DATABASE} OWNER TO {ROLE}"
# Tests create databases, and damage rows in spite of triggers and keys, as a faulty disk does.
_TESTS = (f"ALTER ROLE {ROLE} CREATEDB", f"GRANT SET ON PARAMETER session_replication_role TO {ROLE}")

HAND_OVER: tuple[str, ...] = (_ROLE, _LOGIN, _EXTENSION, _DATABASE)
FOR_TESTS: tuple[str, ...] = (_ROLE, _LOGIN, _EXTENSION, *_TESTS)


def script(statements: tuple[str, ...], password: str) -> str:
    return "".join(f"{statement.strip().replace('{password}', password)};\n\n" for statement in statements)


_LOCALE = ("-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=PG_UNICODE_FAST")
_ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": os.defpath,
    # The next statement reuses the memory that one frees, which otherwise returns to the system each time.
    "MALLOC_TRIM_THRESHOLD_": str(16 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": str(16 * 2**20),
    "MALLOC_TOP_PAD_": str(2**20),
}
# After a crash the log is replayed before the first connection; a start that takes longer has another cause.
_LONGEST_START = 300.0
_GRACE = 20.0
# Limits of the page cache in MB; the lower one is PostgreSQL's default.
_LEAST_BUFFERS, _MOST_BUFFERS = 128, 1024
# How the server names the base in its messages if it runs for root.
_DESCRIPTOR = re.compile(r"/proc/self/fd/\d+")


class Server:
    """The server of one cluster, run as the cluster's account."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.account = cluster.account
        self.maker = cluster.maker
        self.bin = paths.binaries(self.account)

    def start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Creates the cluster if needed, removes what a crash left, starts the server and waits until it answers.
        Raises ServerError when any of this fails."""
        if not self.cluster.data.exists():
            self._make()
        self._check()
        self._clear()
        if not self.cluster.passfile.exists():
            self._hand_over()
        self._give_whole(self.account)
        self._write(self.cluster.access, f"local all {paths.ROLE} scram-sha-256\n", 0o644)
        before = os.fstat(log.fileno()).st_size
        process = self._launch(log)
        self._wait(process, before)
        return process

    def accepts(self) -> bool:
        """Whether a connection would succeed now."""
        place = ("-h", str(self.cluster.socket), "-p", "5432", "-U", paths.ROLE, "-d", "postgres")
        command = (str(self.bin / "pg_isready"), "-q", "-t", "5", *place)
        return subprocess.run(command, capture_output=True).returncode == 0

    def _make(self) -> None:
        """Runs initdb in another folder, which is renamed at the end: a cluster exists completely or not at all."""
        for draft in self.cluster.base.glob("data.new-*"):
            shutil.rmtree(draft)
        draft = Path(tempfile.mkdtemp(prefix="data.new-", dir=self.cluster.base))
        self._give(draft, self.maker)
        superuser = ("-U", paths.SUPERUSER, "-A", "reject")
        self._run("initdb", "-D", draft, *superuser, *_LOCALE, "--no-sync", "--no-instructions")
        if not self.cluster.throwaway:
            self._run(
                "postgres", "--single", "-F", "-D", draft, "postgres", script=f"CREATE DATABASE {paths.DATABASE}\n"
            )
        draft.rename(self.cluster.data)
        self.cluster.passfile.unlink(missing_ok=True)  # it belongs to data that is gone

    def _hand_over(self) -> None:
        """Gives the database to the application's role, with a new password. The passfile is written last: if it is
        missing, the next start does all of this again."""
        password = secrets.token_urlsafe(32)
        database, statements = paths.DATABASE, HAND_OVER
        if self.cluster.throwaway:
            # New databases copy this template: those of tests have the extension, and their role may bypass triggers.
            database, statements = "template1", FOR_TESTS
        self._give_whole(self.maker)
        self._run(
            *("postgres", "--single", "-j", "-D", self.cluster.data, "-c", f"cluster_name={self.cluster.name}"),
            # Thousands of rounds protect passwords that people choose. This one is random and cannot be guessed, and
            # the rounds took half the processor time of each connection.
            *("-c", "scram_iterations=1", "-c", "log_min_error_statement=panic", database),
            script=script(statements, password),
        )
        self._write(self.cluster.passfile, f"*:*:*:*:{password}\n", 0o600)

    def _write(self, path: Path, text: str, mode: int) -> None:
        draft = path.with_name(f"{path.name}.new")
        draft.unlink(missing_ok=True)
        draft.touch(0o600)
        draft.write_text(text)
        draft.chmod(mode)
        draft.replace(path)

    def _give(self, folder: Path, account: Account) -> None:
        folder.chmod(0o700)
        if account.other:
            os.chown(folder, account.uid, account.gid)

    def _give_whole(self, account: Account) -> None:
        """Gives all files of the data to the account; the folder comes last, so an interrupted call is repeated."""
        data = self.cluster.data
        if account.other and data.stat().st_uid != account.uid:
            for path in data.rglob("*"):
                os.chown(path, account.uid, account.gid, follow_symlinks=False)
            os.chown(data, account.uid, account.gid)

    @contextmanager
    def _shared_paths(self) -> Iterator[tuple[Callable[[Path], Path], tuple[int, ...]]]:
        """Yields how the server's account names paths in the base, and the descriptors that its processes inherit.
        Folders above the base may be closed to that account. So root opens the base, and a process that inherits the
        descriptor reaches the base through it."""
        base = self.cluster.base
        if not self.account.other:
            yield lambda path: path, ()
            return
        if sys.platform != "linux":
            raise ServerError("As root the database runs on Linux alone: start as an ordinary user.")
        descriptor = os.open(base, os.O_PATH | os.O_DIRECTORY)
        named = Path(f"/proc/self/fd/{descriptor}")
        try:
            yield lambda path: named / path.relative_to(base) if path.is_relative_to(base) else path, (descriptor,)
        finally:
            os.close(descriptor)

    def _run(self, program: str, *arguments: str | Path, script: str = "") -> None:
        with self._shared_paths() as (named, descriptors):
            done = subprocess.run(
                [self.bin / program, *(named(each) if isinstance(each, Path) else each for each in arguments)],
                input=script,
                capture_output=True,
                text=True,
                errors="replace",
                cwd=self.cluster.base,
                env=_ENVIRONMENT,
                pass_fds=descriptors,
                **self.maker.process_options(),
            )
        if done.returncode or "ERROR:" in done.stderr:
            lines = done.stderr.strip().splitlines()
            telling = [line for line in lines if "ERROR:" in line or "FATAL:" in line] or lines[-1:]
            reason = self._in_full((telling or [f"exit {done.returncode}"])[0])
            raise ServerError(f"The database in {self.cluster.base} can't be made: {program}: {reason}")

    def _check(self) -> None:
        """Raises ServerError for a cluster of another owner or version, which PostgreSQL would refuse obscurely."""
        data = self.cluster.data
        owner = data.stat().st_uid
        if not self.account.other and not self.account.reaches(data):
            raise ServerError(f"The database in {data} belongs to another account, and a folder above is closed to it.")
        if self.account.uid == 0:
            raise ServerError(
                f"The database in {data} belongs to root, as whom it can't run: chown -R nobody '{data}'."
            )
        if owner not in (self.account.uid, self.maker.uid):
            raise ServerError(f"The database in {data} belongs to another user: start as that user, or as root.")
        made_by = (data / "PG_VERSION").read_text().strip()
        if made_by != str(paths.MAJOR):
            raise ServerError(
                f"The database in {data} was made by PostgreSQL {made_by}, and PostgreSQL {paths.MAJOR} is installed: "
                f"use another --data-dir, or move it with a dump of PostgreSQL {made_by}."
            )

    def _clear(self) -> None:
        """Ends the remaining processes of an earlier server, then removes its pid file and socket. In a container
        without an init process, a killed postmaster may remain a zombie: its pid still exists, and PostgreSQL would
        refuse to start. So both files are removed when no process of this server is running."""
        for number, patience in ((signal.SIGINT, _GRACE), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
            if not self._leave(number, patience):
                break
        self._prepare_socket()
        for mark in (self.cluster.data / "postmaster.pid", *self.cluster.socket.glob(".s.PGSQL.5432*")):
            mark.unlink(missing_ok=True)

    def _leave(self, number: signal.Signals, patience: float) -> list[int]:
        """Signals the processes of an earlier server; returns those that still run after ``patience`` seconds."""
        deadline = time.monotonic() + patience
        left = self._earlier()
        for pid in left:
            children.send(pid, number)
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = self._earlier()
        return left

    def _earlier(self) -> list[int]:
        named, title = f"cluster_name={self.cluster.name} ", f"postgres: {self.cluster.name}: "
        lines = children.command_lines()
        return [pid for pid, line in lines if ("/postgres " in line and named in line) or line.startswith(title)]

    def _prepare_socket(self) -> None:
        folder = self.cluster.socket
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            status = folder.lstat()
            ours = status.st_uid in (self.account.uid, os.geteuid()) or folder.is_relative_to(self.cluster.base)
            if folder.is_symlink() or not ours:
                raise ServerError(f"{folder} should hold the database's socket and belongs to somebody else.") from None
        self._give(folder, self.account)

    def _launch(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._shared_paths() as (named, descriptors):
            return subprocess.Popen(
                [self.bin / "postgres", "-D", named(self.cluster.data), *self._settings(named)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.cluster.base,
                env=_ENVIRONMENT,
                start_new_session=True,
                preexec_fn=children.end_with_parent(signal.SIGINT),
                pass_fds=descriptors,
                **self.account.process_options(),
            )

    def _settings(self, named: Callable[[Path], Path]) -> list[str]:
        folder = str(named(self.cluster.socket)).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": f'"{folder}"',
            "unix_socket_permissions": "0700",
            "hba_file": str(named(self.cluster.access)),
            "cluster_name": self.cluster.name,
            "shared_buffers": f"{self._buffers()}MB",
            # Enough for twelve web processes under full load, and the worker.
            "max_connections": "300",
            # Holds seconds of full load, so that only commits wait for a slow disk; 4 MB are full in half a second.
            "wal_buffers": "32MB",
            "jit": "off",
            # The usual value for solid-state disks; with the default, a query for a hundred rows scans the whole table.
            "random_page_cost": "1.1",
        }
        if not os.access("/dev/shm", os.W_OK):
            settings["dynamic_shared_memory_type"] = "mmap"
        if self.cluster.throwaway:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _buffers(self) -> int:
        """The size of the database's page cache in MB: a quarter of the memory, within limits. A search reads all
        vectors of a memory, 170 MB for 300,000 messages. A table of more than a quarter of the cache does not stay in
        it, and its pages are copied from the system's cache each time."""
        if self.cluster.throwaway:
            return _LEAST_BUFFERS
        quarter = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
        return min(max(quarter // 2**20, _LEAST_BUFFERS), _MOST_BUFFERS)

    def _wait(self, process: subprocess.Popen[bytes], before: int) -> None:
        deadline = time.monotonic() + _LONGEST_START
        while not self.accepts():
            if process.poll() is not None or time.monotonic() > deadline:
                stop(process)
                raise ServerError(f"The database doesn't start: {self._complaint(before)} (see {self.cluster.log}).")
            time.sleep(0.03)

    def _complaint(self, before: int) -> str:
        """Returns the line with the reason from what the server wrote after the first ``before`` bytes of its log."""
        lines = self.cluster.log.read_bytes()[before:].decode(errors="replace").strip().splitlines()
        telling = [line for line in lines if "FATAL:" in line or "could not" in line or "ERROR:" in line]
        return self._in_full((telling or lines or ["it wrote nothing"])[-1].rstrip("."))

    def _in_full(self, line: str) -> str:
        """Returns the line with the real path of the base instead of the descriptor's."""
        return _DESCRIPTOR.sub(lambda _: str(self.cluster.base), line)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stops the server: it closes its connections, and keeps everything that was committed."""
    for number, patience in ((signal.SIGINT, _GRACE), (signal.SIGQUIT, 5.0)):
        process.send_signal(number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        return
    process.kill()
    process.wait()
