"""The child processes of `up`: started, restarted when they end, and stopped together. Each has a process group of its
own, so Ctrl-C in the terminal reaches only `up`, which then stops its children. If `up` is killed, the kernel signals
them to end. A child that sends no watchdog byte hangs: it is killed and restarted."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from memoryapp.platform.embedded.paths import CHECKOUT

# The watchdog: each child process of `up` sends it a byte a second through a pipe; one that does not hangs.
#
# The web process sends the byte from its event loop. Worker and beat send it from a thread, because their work may
# wait for a long time. Without `up` there is no pipe, and nothing is sent.

VARIABLE = "MNEMOSCOPE_PULSE"
INTERVAL = 1.0


def ping_from_loop() -> None:
    """Sends the byte while the running event loop runs its callbacks."""
    pipe = _pipe()
    if pipe is not None:
        _ping_in_loop(asyncio.get_running_loop(), pipe)


def _ping_in_loop(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    _ping(pipe)
    loop.call_later(INTERVAL, _ping_in_loop, loop, pipe)


def ping_from_thread() -> None:
    """Sends the byte while threads of this process run."""
    pipe = _pipe()
    if pipe is not None:
        threading.Thread(target=_ping_in_thread, args=(pipe,), daemon=True, name="watchdog").start()


def _ping_in_thread(pipe: int) -> None:
    while True:
        _ping(pipe)
        time.sleep(INTERVAL)


def _pipe() -> int | None:
    """Returns the number of the pipe and removes it from the environment, so that no child sends in its place."""
    number = os.environ.pop(VARIABLE, "")
    return int(number) if number else None


def _ping(pipe: int) -> None:
    # A full pipe already holds signs of life; a broken one means that `up` has ended.
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(pipe, b".")


# Processes of this machine: children that end with their parent, and the command lines of running processes.

_PR_SET_PDEATHSIG = 1


def end_with_parent(death: signal.Signals) -> Callable[[], None] | None:
    """Returns a ``preexec_fn`` that has the child signalled ``death`` when the thread that started it ends, even by
    kill -9. Returns None except on Linux; there the next start finds a remaining child by its command line."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death))
        if os.getppid() != parent:
            os.kill(os.getpid(), death)

    return tie


def command_lines() -> Iterator[tuple[int, str]]:
    """Yields (pid, command line) of every running process. A zombie has no command line, so it is left out."""
    if not Path("/proc/self/cmdline").exists():
        listing = subprocess.run(["ps", "-axo", "pid=,command="], capture_output=True, check=True).stdout
        for line in os.fsdecode(listing).splitlines():
            pid, _, command = line.strip().partition(" ")
            yield int(pid), command
        return
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        # A process may have ended.
        with suppress(OSError):
            if raw := path.read_bytes():
                yield int(path.parent.name), os.fsdecode(raw.replace(b"\0", b" "))


def send(pid: int, number: signal.Signals) -> None:
    """Signals a process; does nothing if it has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_HEALTHY_AFTER = 30.0
# With what the database needs for its own end, everything ends within two seconds on a busy machine.
_GRACE = 0.5


class Child:
    """One process by its command. Call ``tend()`` often; ``failures`` counts how often it ended soon after a start."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: dict[str, str],
        niceness: int = 0,
        inherits: Sequence[int] = (),
        hang_timeout: float = 30.0,
        start_timeout: float = 120.0,
    ) -> None:
        """The child inherits the open files ``inherits`` under the same numbers. It counts as hanging after
        ``hang_timeout`` seconds without a watchdog byte; for the first one it has ``start_timeout`` seconds."""
        self.name = name
        self._hang_timeout, self._start_timeout = hang_timeout, max(start_timeout, hang_timeout)
        self._watchdog = -1
        self._hangs_after = 0.0
        self._hanging = ""
        self._niceness = niceness
        self._inherits = inherits
        self.failures = 0
        self._command = command
        self._environment = {**os.environ, **environment}
        self._started = self._due = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._started = time.monotonic()
        pipe = self._new_watchdog()
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                cwd=CHECKOUT,
                env=self._environment | {VARIABLE: str(pipe)},
                pass_fds=(*self._inherits, pipe),
                process_group=0,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        finally:
            os.close(pipe)
        if self._niceness:
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self._niceness)

    def tend(self, say: Callable[[str], None]) -> None:
        """Kills the child if it hangs and restarts it if it ended, after growing pauses if it keeps ending."""
        now = time.monotonic()
        if self.alive:
            if self._hangs(now):
                say(f"{self.name} {self._hanging}; killing it")
                self.signal(signal.SIGKILL)
                self._hangs_after = now + self._hang_timeout
            return
        if self._process is not None:
            self.failures = 1 if now - self._started > _HEALTHY_AFTER else self.failures + 1
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self.failures - 1))
            code = self._process.returncode
            how = f"exit {code}" if code >= 0 else f"signal {-code}"
            say(f"{self.name} ended ({how}); starting it again in {pause:g} s")
            self._process, self._due = None, now + pause
        elif now >= self._due:
            self.start()

    def _new_watchdog(self) -> int:
        """Opens a pipe for the next process; keeps the reading end and returns the writing end."""
        if self._watchdog >= 0:
            os.close(self._watchdog)
        self._watchdog, pipe = os.pipe()
        os.set_blocking(self._watchdog, False)
        os.set_blocking(pipe, False)
        self._hangs_after = self._started + self._start_timeout
        self._hanging = f"did not start within {self._start_timeout:g} s"
        return pipe

    def _hangs(self, now: float) -> bool:
        try:
            received = os.read(self._watchdog, 65536)
        except BlockingIOError:
            received = b""
        if received:
            self._hangs_after = now + self._hang_timeout
            self._hanging = f"gave no sign of life for {self._hang_timeout:g} s"
        return now > self._hangs_after

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


def stop(children: Sequence[Child]) -> None:
    """Asks all to end and kills the remaining ones half a second later. No work is lost: it is a state in a row."""
    for child in children:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while any(child.alive for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    for child in children:
        child.signal(signal.SIGKILL)
