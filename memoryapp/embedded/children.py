"""The child processes of `up`: started, restarted when they end, and stopped together.

Each has a process group of its own, so Ctrl-C in the terminal reaches only `up`, which then stops its children. If `up`
is killed, the kernel signals them to end. A child that sends no watchdog byte hangs: it is killed and restarted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from memoryapp.embedded import processes, watchdog
from memoryapp.embedded.paths import CHECKOUT

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_HEALTHY_AFTER = 30.0
# With what the database needs for its own end, everything ends within two seconds on a busy machine.
_GRACE = 0.5
# A start may take long on a busy machine, and sends no byte before its end.


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
        """The child inherits the open files ``inherits`` under the same numbers.

        It counts as hanging after ``hang_timeout`` seconds without a watchdog byte; for the first one it has
        ``start_timeout`` seconds.
        """
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
                env=self._environment | {watchdog.VARIABLE: str(pipe)},
                pass_fds=(*self._inherits, pipe),
                process_group=0,
                preexec_fn=processes.end_with_parent(signal.SIGTERM),
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
            say(f"{self.name} ended ({_ending(self._process.returncode)}); starting it again in {pause:g} s")
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


def _ending(code: int) -> str:
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def stop(children: Sequence[Child]) -> None:
    """Asks all to end and kills the remaining ones half a second later. No work is lost: it is a state in a row."""
    for child in children:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while any(child.alive for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    for child in children:
        child.signal(signal.SIGKILL)
