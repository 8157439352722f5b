"""The processes `up` looks after: started, started again when they end, stopped together.

Each leads a process group of its own, so Ctrl-C in the terminal reaches only `up`, which then stops them in peace.
If `up` is killed, the kernel tells them to end. One whose pulse stops for long hangs, and is killed and started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from memoryapp.embedded import processes, pulse
from memoryapp.embedded.places import CHECKOUT

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_HEALTHY_AFTER = 30.0
_GRACE = 1.0
# A start may take long on a busy machine; nothing is heard before its end.
_LONGEST_START = 120.0


class Child:
    """One process by its command. ``tend()`` it often; ``failures`` counts ends since it last ran for a while."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: dict[str, str],
        yielding: int = 0,
        inherits: Sequence[int] = (),
        silence: float = 30.0,
    ) -> None:
        """``yielding`` is the niceness: how readily it leaves the processor to others.

        Of our open files it gets those it ``inherits``, under the same numbers. After ``silence`` seconds without a
        pulse it hangs.
        """
        self.name = name
        self._silence = silence
        self._pulse = -1
        self._silent_until = 0.0
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
        given = self._new_pulse()
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                cwd=CHECKOUT,
                env=self._environment | {pulse.VARIABLE: str(given)},
                pass_fds=(*self._inherits, given),
                process_group=0,
                preexec_fn=processes.tied_to_parent(signal.SIGTERM),
            )
        finally:
            os.close(given)
        if self._yielding:
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self._yielding)

    def tend(self, say: Callable[[str], None]) -> None:
        """Starts it again if it ended, later and later if it keeps ending."""
        now = time.monotonic()
        if self.alive:
            if self._hangs(now):
                say(f"{self.name} gave no sign of life for {self._silence:g} s; killing it")
                self.signal(signal.SIGKILL)
                self._silent_until = now + self._silence
            return
        if self._process is not None:
            self.failures = 1 if now - self._started > _HEALTHY_AFTER else self.failures + 1
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self.failures - 1))
            say(f"{self.name} ended ({_ending(self._process.returncode)}); starting it again in {pause:g} s")
            self._process, self._due = None, now + pause
        elif now >= self._due:
            self.start()

    def _new_pulse(self) -> int:
        """A pipe for the process about to start: we keep one end, the other is returned."""
        if self._pulse >= 0:
            os.close(self._pulse)
        self._pulse, given = os.pipe()
        os.set_blocking(self._pulse, False)
        os.set_blocking(given, False)
        self._silent_until = self._started + max(_LONGEST_START, self._silence)
        return given

    def _hangs(self, now: float) -> bool:
        try:
            heard = os.read(self._pulse, 65536)
        except BlockingIOError:
            heard = b""
        if heard:
            self._silent_until = now + self._silence
        return now > self._silent_until

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


def _ending(code: int) -> str:
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def stop(children: Sequence[Child]) -> None:
    """Asks all to end and kills what is left soon after: work is a state in a row, and whoever stops us is waiting."""
    for child in children:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while any(child.alive for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    for child in children:
        child.signal(signal.SIGKILL)
