"""Creates `.venv` beside manage.py from the lock file, with the standard library alone, and continues inside it.

A stamp, written last, records which lock files are installed. While packages are being installed, `.venv` contains a
marker file: a start that finds it knows that an earlier one was killed, and creates `.venv` again. A file lock lets
only one process install at a time."""

import fcntl
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
import venv
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from memoryapp.platform.embedded import children
from memoryapp.platform.embedded.paths import CHECKOUT

VENV = CHECKOUT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = {"up": CHECKOUT / "requirements.lock", "test": CHECKOUT / "requirements-dev.lock"}
_STAMP = VENV / "installed-locks"
_UNFINISHED = VENV / "installing"
_REPORT_INTERVAL = 8.0


def enter(argv: Sequence[str]) -> None:
    """Continues inside `.venv`, which ``up`` and ``test`` create if needed. Ends the process if that is impossible."""
    command = argv[1] if len(argv) > 1 else "help"
    # The vectors are short: on two cores, BLAS threads wait for each other far longer than they work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    fresh = command in LOCKS and _install(LOCKS[command])
    inside = Path(sys.executable).parent.resolve() == PYTHON.parent.resolve()
    if PYTHON.exists() and (fresh or not inside):
        os.environ.setdefault("PYTHONUTF8", "1")
        os.execv(PYTHON, [str(PYTHON), *sys.orig_argv[1:]])
    if not importlib.util.find_spec("django"):
        sys.exit(
            f"The packages in {VENV} are not this Python's: delete that folder and run `python3 manage.py up`."
            if inside
            else "Nothing is installed yet: run `python3 manage.py up` once; it makes .venv and installs the packages."
        )


def _install(lock: Path) -> bool:
    """Installs the packages of this lock file into `.venv`; returns whether anything had to be done."""
    if _installed(lock):
        return False
    try:
        with _alone() as file:
            if not _installed(lock):
                _make_venv(file)
                _install_packages(lock, file)
    except KeyboardInterrupt:
        sys.exit("Interrupted; run it again to go on.")
    except OSError as error:
        sys.exit(f"{VENV} can't be made: {error}")
    return True


def _digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def _installed(lock: Path) -> bool:
    stamped = _STAMP.exists() and PYTHON.exists() and not _UNFINISHED.exists()
    return stamped and _digest(lock) in _STAMP.read_text().split()


@contextmanager
def _alone() -> Iterator[int]:
    """Lets one process install at a time; yields the descriptor of the locked file, which its children inherit."""
    with open(LOCKS["up"]) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Waiting for another start that is installing packages ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _make_venv(file: int) -> None:
    half_made = _UNFINISHED.exists() or (VENV.exists() and not PYTHON.exists())
    if half_made or not PYTHON.exists():
        if VENV.is_symlink():
            # What it leads to may be another checkout's, and making it again begins by emptying it.
            sys.exit(f"{VENV} is a link to an environment that is not whole: remove the link, and run it again.")
        if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
            package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
            sys.exit(
                f"This Python can't make virtual environments: install its venv module (apt-get install {package})."
            )
        _say("Making .venv again: the last start was cut off." if half_made else "Making .venv ...")
        VENV.mkdir(exist_ok=True)
        _UNFINISHED.touch()
        venv.EnvBuilder(clear=half_made, symlinks=True).create(VENV)
    _UNFINISHED.touch()
    if subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode:
        _run_in_venv(["ensurepip", "--upgrade", "--default-pip"], file, total=0)


def _install_packages(lock: Path, file: int) -> None:
    pins = _pins(lock)
    _say(f"Installing {len(pins)} packages from {lock.name} ...")
    _run_in_venv(
        ["pip", "install", "--require-hashes", "--disable-pip-version-check", "--no-input", "-r", str(lock)],
        file,
        total=len(pins),
    )
    # Another lock file counts as installed if all of its pins are: the dev lock contains those of the other.
    done = [_digest(other) for other in LOCKS.values() if _pins(other) <= pins]
    _STAMP.write_text("\n".join(done) + "\n")
    _UNFINISHED.unlink()
    _say("Packages installed.")


def _pins(lock: Path) -> set[str]:
    return {line.split()[0] for line in lock.read_text().splitlines() if "==" in line and not line.startswith("#")}


def _run_in_venv(arguments: list[str], file: int, total: int) -> None:
    """Runs a module of `.venv` and prints its progress. If it fails, ends the process with its last lines."""
    last: deque[str] = deque(maxlen=15)
    reported, collected = time.monotonic(), 0
    with subprocess.Popen(
        [PYTHON, "-m", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        pass_fds=(file,),
        preexec_fn=children.end_with_parent(signal.SIGKILL),
    ) as process:
        for line in process.stdout or ():
            last.append(line.rstrip())
            collected += line.startswith(("Collecting ", "Requirement already satisfied"))
            if total and line.startswith("Installing collected packages"):
                total = 0
                _say("  unpacking them ...")
            elif total and time.monotonic() - reported > _REPORT_INTERVAL:
                reported = time.monotonic()
                _say(f"  {collected} of {total} packages fetched")
    if process.returncode:
        _UNFINISHED.unlink(missing_ok=True)  # pip installs all or nothing, so nothing has changed
        sys.exit(
            "\n".join((*last, "", f"The packages could not be installed: {arguments[0]} printed the lines above."))
        )


def _say(text: str) -> None:
    print(text, flush=True)
