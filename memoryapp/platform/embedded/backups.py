"""A backup: one file with the whole database, the files that came with queries, uploads that wait, and a manifest.

It is made while the program runs: the database is copied as it was at one moment, and files afterwards, so that none is
missing. It is a zip whose table of contents comes last, so half a file is none. Restoring one needs an empty database,
and a program that knows all of the backup's migrations; an older backup is brought up to date at the next start."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memoryapp.platform import database
from memoryapp.platform.database import conninfo
from memoryapp.platform.embedded import paths
from memoryapp.platform.embedded.paths import Account, ServerError
from memoryapp.platform.storage import NoSpace, check_space

FORMAT = 1
_MANIFEST, _DATABASE = "manifest.json", "database.dump"
_PIECE = 1 << 20
# In the data folder while a restore goes on: one that finds it, and no tables, begins again.
_RESTORING = "restoring"
# Seconds after which the draft of a backup is what a killed process left.
_STALE = 24 * 3600.0
# Seconds for which a restore waits for the end of what a killed one began on the server.
_LONGEST_END = 60.0
_ANOTHER = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pg_restore')
"""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
# A line of the table of contents: number, two ids, kind, schema, table, owner.
_DATA = re.compile(r"^\d+; \d+ \d+ TABLE DATA \S+ (\S+) ", re.MULTILINE)
# A dump has no indexes and is compressed; vectors hardly are.
_PACKED = 2


class BackupError(Exception):
    """A backup cannot be made or restored; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds: when it was made, the ``migrations`` of its tables, how many files, and the major version of
    ``postgres`` that wrote it; 0 in backups of earlier versions."""

    at: str
    migrations: tuple[str, ...]
    files: int
    postgres: int = 0

    @property
    def last_migration(self) -> str:
        """Returns the newest of this program's, or of those that it has replaced if there are only such; else empty."""
        own = {name for name in self.migrations if name.startswith("memoryapp.")}
        return max(own - database.replaced() or own, default="")


def folders() -> Mapping[str, Path]:
    """The folders whose files belong to a backup, by their names in it."""
    return {"files": Path(settings.MEDIA_ROOT), "imports": Path(settings.IMPORT_DIR)}


def back_up(target: Path) -> Manifest:
    """Writes a backup, for its owner alone, which appears once it is complete and was read back. Raises BackupError."""
    applied = _applied()
    _remove_stale_drafts(target)
    try:
        check_space(target.parent, _asked("SELECT pg_database_size(current_database())") // _PACKED)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    except NoSpace as error:
        raise BackupError(str(error)) from None
    except OSError as error:
        raise BackupError(f"{target} cannot be written: {error.strerror}.") from error
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            _dump(archive)
            at = datetime.now(UTC).isoformat(timespec="seconds")
            count = 0
            for name, path in _present():
                # What was erased or moved meanwhile is no longer part of the memory.
                with suppress(FileNotFoundError):
                    archive.write(path, name)
                    count += 1
            manifest = Manifest(at, applied, count, _major())
            archive.writestr(_MANIFEST, json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1))
        _check_readable(draft)
        draft.replace(target)
    except OSError as error:
        raise BackupError(f"{target} cannot be written: {error.strerror or error}.") from error
    finally:
        draft.unlink(missing_ok=True)
    return manifest


def _check_readable(draft: Path) -> None:
    """Reads all of a backup as a restore would. Raises BackupError unless every table of the database is in it."""
    with zipfile.ZipFile(draft) as archive:
        if archive.testzip():
            raise BackupError("The backup cannot be read back, so it was thrown away; is the disk in order?")
        found = set(_DATA.findall(_read(archive, "read back", "--list").decode("utf-8", "replace")))
        # Without a database it is written as text.
        _read(archive, "read back", f"--file={os.devnull}")
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        lacking = sorted({name for (name,) in cursor.fetchall()} - found)
    if lacking:
        raise BackupError(f"The backup lacks the table {lacking[0]}, so it was thrown away.")


def check_whole(source: Path) -> None:
    """Reads all of the file. Raises BackupError unless it is a whole backup."""
    with _opened(source) as archive:
        _manifest(archive, source)
        if broken := archive.testzip():
            raise BackupError(f"{source} is damaged: {broken} in it cannot be read.")


def restore(source: Path) -> Manifest:
    """Fills the empty database and the folders of files from a backup. Raises BackupError; then nothing is restored.
    The database comes last, in one transaction: a process that is killed before leaves an empty one, and the next
    restore begins again. Whether the database is empty is asked when the server has ended what a killed one began."""
    with _opened(source) as archive:
        manifest = _manifest(archive, source)
        _check_known(manifest)
        if manifest.postgres > _major():
            raise BackupError(
                f"The backup was made from PostgreSQL {manifest.postgres}, and this is PostgreSQL {_major()}, which "
                f"cannot read it: restore it into {manifest.postgres} or newer."
            )
        _await_others()
        _check_empty()
        broken = archive.testzip()
        if broken:
            raise BackupError(f"{source} is damaged: {broken} in it cannot be read. Nothing was restored.")
        members = _members(archive, source)
        marker = Path(settings.DATA_DIR) / _RESTORING
        marker.touch(mode=0o600)
        try:
            for name, path in members.items():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with archive.open(name) as packed, path.open("wb") as file:
                    shutil.copyfileobj(packed, file, _PIECE)
            # In one transaction, so that a fault leaves the database empty.
            command, environment = _tool("pg_restore", "--no-owner", "--no-privileges", "--single-transaction")
            connection.close()
            _feed(archive, command, environment, "restored")
        except BaseException:
            _take_back()
            raise
        marker.unlink()
    return manifest


def _asked(statement: str) -> int:
    """What the database answers by a number."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])


def _major() -> int:
    """The major version of the server."""
    return _asked("SHOW server_version_num") // 10_000


def _await_others() -> None:
    until = time.monotonic() + _LONGEST_END
    while _asked(_ANOTHER):
        if time.monotonic() > until:
            raise BackupError("Another restore is filling the database; wait for its end.")
        time.sleep(0.1)


def _take_back() -> None:
    """Removes what was unpacked, unless the database was filled at the last moment. If this fails, the marker stays,
    and the next restore does it."""
    _await_others()
    if not connection.introspection.table_names():
        _remove_files()
    (Path(settings.DATA_DIR) / _RESTORING).unlink()


def _remove_files() -> None:
    for _name, path in list(_present()):
        path.unlink(missing_ok=True)


def _remove_stale_drafts(target: Path) -> None:
    oldest = time.time() - _STALE
    for draft in target.parent.glob(f".{glob.escape(target.name)}-*"):
        with suppress(OSError):
            if draft.stat().st_mtime < oldest:
                draft.unlink()


def _tool(name: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Returns the command line of a tool of PostgreSQL for the program's database, and its environment. The password is
    in the environment, because command lines can be read by everybody."""
    address = conninfo_to_dict(conninfo())
    secret = {"PGPASSWORD": str(address.pop("password"))} if address.get("password") else {}
    command = [_program(name), *arguments, f"--dbname={make_conninfo(**cast('dict[str, Any]', address))}"]
    return command, {**os.environ, **secret}


def _program(name: str) -> str:
    """Returns the tool of the server's own major version: an older one reads no newer server, and what a newer one
    writes or restores has settings that an older server refuses, except that 17 knows those of the embedded one."""
    major = _major()
    folders = [Path(f"/usr/lib/postgresql/{major}/bin"), Path(f"/usr/pgsql-{major}/bin")]
    found = shutil.which(name)
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout if found else ""
    if found and f" {major}." in version:
        folders.append(Path(found).parent)
    if major in (17, paths.MAJOR):
        with suppress(ServerError):
            folders.append(paths.binaries(Account(os.geteuid(), os.getegid())))
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    raise BackupError(
        f"The server is PostgreSQL {major}, and {name} of that version is not installed: on Debian or Ubuntu install "
        f"postgresql-client-{major}, elsewhere the client of PostgreSQL {major}."
    )


def _dump(archive: zipfile.ZipFile) -> None:
    # An extension is there before a restore; older tools can leave out only the comment on it.
    without = "--exclude-extension=*" if _major() >= 17 else "--no-comments"
    command, environment = _tool("pg_dump", "--format=custom", "--no-owner", "--no-privileges", without)
    with tempfile.TemporaryFile() as faults:
        with (
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=faults) as process,
            archive.open(_DATABASE, "w", force_zip64=True) as packed,
        ):
            shutil.copyfileobj(cast("IO[bytes]", process.stdout), packed, _PIECE)
        _check_ended(process.returncode, faults, "backed up")


def _read(archive: zipfile.ZipFile, done: str, *arguments: str) -> bytes:
    """What the tool prints that reads the dump without a database."""
    with tempfile.TemporaryFile() as output:
        _feed(archive, [_program("pg_restore"), *arguments], dict(os.environ), done, output)
        output.seek(0)
        return output.read()


def _feed(
    archive: zipfile.ZipFile,
    command: list[str],
    environment: dict[str, str],
    done: str,
    output: IO[bytes] | None = None,
) -> None:
    """Runs a tool with the dump as its input. Raises BackupError with what it says if it fails."""
    with tempfile.TemporaryFile() as faults:
        with (
            subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=faults) as process,
            archive.open(_DATABASE) as packed,
        ):
            # If the tool ends early, it has said why.
            with suppress(BrokenPipeError):
                shutil.copyfileobj(packed, cast("IO[bytes]", process.stdin), _PIECE)
            with suppress(BrokenPipeError):
                cast("IO[bytes]", process.stdin).close()
        _check_ended(process.returncode, faults, done)


def _check_ended(status: int, faults: IO[bytes], done: str) -> None:
    if status:
        faults.seek(0)
        lines = faults.read(4_000).decode("utf-8", "replace").strip().splitlines()
        raise BackupError(f"The database cannot be {done}: {lines[0] if lines else f'the tool ended with {status}'}")


def _present() -> Iterator[tuple[str, Path]]:
    for top, folder in folders().items():
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                yield f"{top}/{path.relative_to(folder).as_posix()}", path


def _opened(source: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source)
    except zipfile.BadZipFile:
        raise BackupError(f"{source} is no backup, or not a whole one.") from None
    except OSError as error:
        raise BackupError(f"{source} cannot be read: {error.strerror}.") from error


def _manifest(archive: zipfile.ZipFile, source: Path) -> Manifest:
    try:
        stored = json.loads(archive.read(_MANIFEST))
        archive.getinfo(_DATABASE)
        known = stored["format"] == FORMAT
        migrations = tuple(map(str, stored["migrations"]))
        read = Manifest(str(stored["at"]), migrations, int(stored["files"]), int(stored.get("postgres", 0)))
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile):
        raise BackupError(f"{source} is no backup of this program.") from None
    if not known:
        raise BackupError(f"{source} was made by a newer version of this program; restore it with that version.")
    return read


def _applied() -> tuple[str, ...]:
    """Returns the migrations that the database has recorded, as an older version of this program would name them."""
    return tuple(sorted(".".join(key) for key in MigrationRecorder(connection).applied_migrations()))


def _check_known(manifest: Manifest) -> None:
    if database.is_before_replaced(manifest.migrations):
        raise BackupError("The backup was made by a version before 0.17.1: restore it with 0.17.1, then upgrade that.")
    known = {".".join(key) for key in MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}}
    if unknown := sorted(set(manifest.migrations) - known - database.replaced()):
        raise BackupError(
            f"The backup was made by a newer version of this program, which made {unknown[-1]}: restore it with that."
        )


def _check_empty() -> None:
    marker = Path(settings.DATA_DIR) / _RESTORING
    if connection.introspection.table_names():
        marker.unlink(missing_ok=True)
        raise BackupError("The database has tables already; restore into an empty one (another --data-dir).")
    if marker.exists():
        _remove_files()
    if any(True for _ in _present()):
        raise BackupError(f"{settings.DATA_DIR} holds files already; restore into an empty folder.")


def _members(archive: zipfile.ZipFile, source: Path) -> dict[str, Path]:
    """Returns where each file of the backup belongs. Raises BackupError for one that lies anywhere else."""
    tops, found = folders(), {}
    for name in archive.namelist():
        if name in (_MANIFEST, _DATABASE):
            continue
        top, _, rest = name.partition("/")
        path = (tops[top] / rest).resolve() if top in tops and rest else None
        if path is None or not path.is_relative_to(tops[top].resolve()) or name.endswith("/"):
            raise BackupError(f"{source} holds a file that is none of this program's: {name[:100]!r}.")
        found[name] = path
    return found


def before_upgrade(say: Callable[[str], None]) -> None:
    """Backs up a database whose tables are about to change, into ``backups`` of the data folder. Raises BackupError."""
    if not settings.UPGRADE_BACKUP or not connection.introspection.table_names():
        return
    folder = paths.open_folder(settings.DATA_DIR / "backups", 0o700)
    last = Manifest("", _applied(), 0).last_migration.removeprefix("memoryapp.")
    target = folder / f"before-{datetime.now(UTC):%Y%m%dT%H%M%S}-{last[:4]}.backup"
    for draft in folder.glob(".before-*"):
        draft.unlink()
    say(f"Backing up into {target} ...")
    back_up(target)


def after_upgrade() -> None:
    """Removes all but the last two backups of upgrades, once an upgrade is done: until then the first one may be the
    only one to go back to."""
    for old in sorted((settings.DATA_DIR / "backups").glob("before-*.backup"))[:-2]:
        old.unlink()


def shown(manifest: Manifest, file: Path) -> dict[str, Any]:
    """What the commands print as JSON."""
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "at": manifest.at,
        "migration": manifest.last_migration,
        "files": manifest.files,
    }
