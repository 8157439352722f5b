"""`manage.py up` as a newcomer runs it, and the `.venv` that it creates."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from memoryapp.platform.embedded import bootstrap, paths
from memoryapp.platform.embedded import children as processes
from memoryapp.platform.embedded.paths import CHECKOUT
from tests.support.clock import PATIENCE
from tests.support.stack import free_port, wait_for

LONGEST = 2 * PATIENCE


def environment(**more: str) -> dict[str, str]:
    """A newcomer's environment: no variable set, and a locale without letters beyond ASCII."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "DATA_DIR")}
    return {**kept, "LANG": "C", "LC_ALL": "C", **more}


def manage(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECKOUT / "manage.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment(**more), timeout=LONGEST)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def ignore_interrupts() -> None:
    """Ignores interrupts, as a shell does for a job that it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Up:
    """A running `up` that has printed its lines about being ready and about signing in: ``ready`` and ``login``."""

    def __init__(self, data: Path, host: str = "127.0.0.1") -> None:
        self.port = free_port()
        self.data = data
        self.host = f"[{host}]" if ":" in host else host
        where = ["--host", host, "--port", str(self.port), "--data-dir", str(data)]
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--no-demo", *where],
            cwd=CHECKOUT,
            env=environment(WEB_CONCURRENCY="2", HANG_TIMEOUT="15s"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=ignore_interrupts,
        )
        self.lines: list[str] = []
        watchdog = threading.Timer(LONGEST, self.process.kill)
        watchdog.start()
        try:
            self.ready = self.await_line("ready: ")
            self.login = self.await_line("Nobody can log in yet")
        finally:
            watchdog.cancel()

    def await_line(self, beginning: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith(beginning):
                return line.strip()
        self.process.communicate()
        raise AssertionError("".join(self.lines))

    def children(self) -> dict[str, list[int]]:
        """Returns the process ids of web, worker and beat."""
        ours = [(pid, line) for pid, line in processes.command_lines() if _parent(pid) == self.process.pid]
        words = {"web": " daphne ", "worker": " worker ", "beat": " beat "}
        return {name: [pid for pid, line in ours if word in line] for name, word in words.items()}

    def everyone(self) -> set[int]:
        return {pid for pids in self.children().values() for pid in pids}

    def status(self) -> int:
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/healthz", timeout=PATIENCE) as answer:
            return int(answer.status)

    def answering(self) -> int:
        """Returns the process id of a web process that answers now; one that is only starting has written no heartbeat
        yet."""
        with socket.create_connection((self.host, self.port), timeout=PATIENCE) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
            own = connection.getsockname()
            [pid] = [pid for pid in self.children()["web"] if own in _connected(pid)]
        return pid

    def end(self, number: signal.Signals) -> int:
        """Sends the signal and waits; returns the exit code."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=LONGEST)
        self.lines.append(rest)
        return self.process.returncode


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _connected(pid: int) -> set[tuple[str, int]]:
    """Returns the remote addresses of the process's connections."""
    return {tuple(each.raddr) for each in psutil.Process(pid).net_connections("tcp") if each.raddr}


def living(pids: set[int], data: Path) -> list[str]:
    """Returns the command lines of those of these processes that still run, and of any server on this data."""
    server = f" cluster_name={paths.cluster(data).name} "
    return [line for pid, line in processes.command_lines() if pid in pids or server in line]


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """A data folder that does not exist yet, with a space in its path, inside a folder that is closed to others."""
    with tempfile.TemporaryDirectory(prefix="mnemoscope up ") as name:
        yield Path(name).resolve() / "my data"


@pytest.fixture(scope="module")
def begun(data: Path) -> Iterator[list[Up]]:
    """The programs that were started on this data; the last of them may still run."""
    ups: list[Up] = []
    yield ups
    if ups and ups[-1].process.poll() is None:
        ups[-1].end(signal.SIGKILL)


@pytest.fixture
def first(begun: list[Up], data: Path) -> Up:
    """A running program, whichever test came before."""
    if not begun or begun[-1].process.poll() is not None:
        begun.append(Up(data))
    return begun[-1]


@pytest.mark.smoke
def test_the_first_start_ends_with_the_address_and_serves(first: Up) -> None:
    assert first.ready == f"ready: http://127.0.0.1:{first.port}/"
    assert {name: len(pids) for name, pids in first.children().items()} == {"web": 2, "worker": 1, "beat": 1}
    assert first.status() == 200


def test_without_any_account_it_says_how_to_make_one(first: Up, data: Path) -> None:
    assert first.login.endswith(f"DATA_DIR='{data}' python3 manage.py createsuperuser. Ctrl-C stops everything.")


def test_a_second_start_on_the_same_data_is_refused_in_a_sentence(first: Up, data: Path) -> None:
    again = manage("up", "--no-demo", "--port", free_port(), "--data-dir", data)
    assert again.returncode == 1
    assert f"Already running with this data (pid {first.process.pid}, http://127.0.0.1:{first.port}/)" in again.stderr
    assert "Traceback" not in again.stderr


def test_a_taken_port_is_refused_with_a_free_one_and_makes_no_database(first: Up, tmp_path: Path) -> None:
    refused = manage("up", "--no-demo", "--port", first.port, "--data-dir", tmp_path / "other")
    assert refused.returncode == 1
    assert f"port {first.port} is already in use. Try: python3 manage.py up --port " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "other" / "postgres" / "data").exists()


def test_a_command_shares_the_database_of_a_running_up(first: Up, data: Path) -> None:
    shown = manage("showmigrations", "memoryapp", DATA_DIR=str(data))
    assert "[X] 0001_initial" in shown.stdout


def test_while_one_web_process_starts_again_the_other_answers(first: Up) -> None:
    killed, other = first.children()["web"]
    os.kill(killed, signal.SIGKILL)
    assert first.status() == 200
    first.await_line("web")
    assert first.lines[-1].endswith("ended (signal 9); starting it again in 0.5 s\n")
    wait_for(lambda: len(first.children()["web"]) == 2)
    assert other in first.children()["web"]


def test_a_web_process_that_hangs_is_replaced_and_every_request_is_answered(first: Up) -> None:
    hanging = first.answering()
    os.kill(hanging, signal.SIGSTOP)
    first.await_line("web")
    assert first.lines[-1].endswith("gave no sign of life for 15 s; killing it\n")
    first.await_line("web")
    wait_for(lambda: len(first.children()["web"]) == 2)
    assert hanging not in first.children()["web"]
    assert [first.status() for _ in range(10)] == [200] * 10


def test_worker_and_beat_give_signs_of_life(first: Up) -> None:
    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{first.host}:{first.port}/readyz", timeout=PATIENCE) as answer:
                health = json.load(answer)
        except urllib.error.HTTPError as unready:
            unready.close()
            return False
        return (health["worker"], health["beat"]) == ("ok", "ok")

    wait_for(ready)


def test_who_asks_while_the_web_starts_again_waits_for_the_answer(first: Up) -> None:
    for web in first.children()["web"]:
        os.kill(web, signal.SIGKILL)
    assert first.status() == 200
    wait_for(lambda: len(first.children()["web"]) == 2)


@pytest.mark.smoke
def test_a_killed_database_comes_back(first: Up, data: Path) -> None:
    supervisor = next(pid for pid, line in processes.command_lines() if f"embedded.supervisor {data}" in line)
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: any(f"embedded.supervisor {data}" in line for _, line in processes.command_lines()))
    assert "[X] 0001_initial" in manage("showmigrations", "memoryapp", DATA_DIR=str(data)).stdout


def test_an_interrupt_stops_everything_even_in_a_background_job(first: Up, data: Path) -> None:
    everyone = first.everyone()
    assert first.end(signal.SIGINT) == 0
    wait_for(lambda: not living(everyone, data))


def test_a_killed_up_leaves_nothing_behind_and_the_next_one_starts(first: Up, data: Path) -> None:
    everyone = first.everyone()
    first.process.kill()
    first.process.communicate()
    wait_for(lambda: not living(everyone, data))
    next_one = Up(data)
    assert next_one.end(signal.SIGTERM) == 0
    wait_for(lambda: not living(set(), data))


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no address of IPv6")
def test_at_an_address_of_ipv6_it_serves_too(begun: list[Up], data: Path) -> None:
    if begun and begun[-1].process.poll() is None:
        begun[-1].end(signal.SIGINT)
    up = Up(data, host="::1")
    begun.append(up)
    assert up.status() == 200
    assert up.end(signal.SIGINT) == 0


def test_a_wrong_setting_stops_the_start_with_a_sentence_naming_it(tmp_path: Path) -> None:
    refused = manage("up", "--data-dir", tmp_path / "data", RERANKER_CANDIDATES="many")
    assert refused.returncode == 1
    assert refused.stderr.strip() == "RERANKER_CANDIDATES must be a whole number, not 'many'."


def make_checkout(folder: Path) -> Path:
    """Makes a checkout of manage.py, the modules that run before anything is installed, and empty lock files."""
    clone = folder / "a clone"
    (clone / "memoryapp").mkdir(parents=True)
    shutil.copy(CHECKOUT / "manage.py", clone)
    (clone / "memoryapp" / "platform").mkdir()
    for name in ("__init__.py", "platform/__init__.py", "platform/environment.py"):
        shutil.copy(CHECKOUT / "memoryapp" / name, clone / "memoryapp" / name)
    shutil.copytree(CHECKOUT / "memoryapp" / "platform" / "embedded", clone / "memoryapp" / "platform" / "embedded")
    for lock in bootstrap.LOCKS.values():
        (clone / lock.name).write_text("")
    return clone


def manage_in(clone: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    # Without site-packages, as on a machine where nothing is installed.
    command = [sys.executable, "-S", str(clone / "manage.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment(**more), timeout=LONGEST)


def test_a_command_before_the_first_start_says_what_to_run(tmp_path: Path) -> None:
    done = manage_in(make_checkout(tmp_path), "migrate")
    assert (done.returncode, done.stdout) == (1, "")
    assert "run `python3 manage.py up` once" in done.stderr


def test_a_cut_off_installation_is_made_again_and_a_failed_one_shows_why(tmp_path: Path) -> None:
    clone = make_checkout(tmp_path)
    lock = clone / "requirements.lock"
    lock.write_text(f"nothing-of-that-name==1.0 --hash=sha256:{'0' * 64}\n")
    for left in ("installing", "half-made"):
        (clone / ".venv").mkdir(exist_ok=True)
        (clone / ".venv" / left).touch()
    failed = manage_in(clone, "up", PIP_NO_INDEX="1")
    assert failed.returncode == 1
    assert "Making .venv again: the last start was cut off.\n" in failed.stdout
    assert "nothing-of-that-name==1.0" in failed.stderr
    assert "The packages could not be installed" in failed.stderr
    assert not (clone / ".venv" / "half-made").exists()

    lock.write_text("")
    assert manage_in(clone, "up").stdout.endswith("Packages installed.\n")
    assert (clone / ".venv" / "installed-locks").exists()


def test_a_python_without_venv_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(bootstrap, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(bootstrap, "_STAMP", tmp_path / ".venv" / "installed-locks")
    monkeypatch.setattr(bootstrap, "_UNFINISHED", tmp_path / ".venv" / "installing")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"apt-get install python3\.\d+-venv"):
        bootstrap.enter(["manage.py", "up"])
