"""The processes `up` looks after: started, started again when they end, stopped together.

Each leads a process group of its own, so Ctrl-C in the terminal reaches only `up`, which then stops them in peace.
If `up` is killed, the kernel tells them to end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from memoryapp.embedded import processes
from memoryapp.embedded.places import CHECKOUT

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_HEALTHY_AFTER = 30.0
_GRACE = 8.0


class Child:
    """One process by its command. ``tend()`` it often; ``failures`` counts ends since it last ran for a while."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: dict[str, str],
        yielding: int = 0,
        inherits: Sequence[int] = (),
    ) -> None:
        """``yielding`` is the niceness: how readily it leaves the processor to others.

        Of our open files it gets those it ``inherits``, under the same numbers.
        """
        self.name = name
        self._yielding = yielding
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
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            cwd=CHECKOUT,
            env=self._environment,
            pass_fds=self._inherits,
            process_group=0,
            preexec_fn=processes.tied_to_parent(signal.SIGTERM),
        )
        if self._yielding:
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self._yielding)

    def tend(self, say: Callable[[str], None]) -> None:
        """Starts it again if it ended, later and later if it keeps ending."""
        if self.alive:
            return
        now = time.monotonic()
        if self._process is not None:
            self.failures = 1 if now - self._started > _HEALTHY_AFTER else self.failures + 1
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self.failures - 1))
            say(f"{self.name} ended ({_ending(self._process.returncode)}); starting it again in {pause:g} s")
            self._process, self._due = None, now + pause
        elif now >= self._due:
            self.start()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


def _ending(code: int) -> str:
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def stop(children: Sequence[Child]) -> None:
    """Asks all to end, gives them 8 seconds, kills what is left."""
    for child in children:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while any(child.alive for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    for child in children:
        child.signal(signal.SIGKILL)
