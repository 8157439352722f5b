"""Processes of this machine: children that end with their parent, and the command lines of running processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def end_with_parent(death: signal.Signals) -> Callable[[], None] | None:
    """Returns a ``preexec_fn`` that has the child signalled ``death`` when the thread that started it ends, even by
    kill -9.

    Returns None except on Linux; there the next start finds a remaining child by its command line.
    """
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
    if Path("/proc/self/cmdline").exists():
        yield from _command_lines_of_proc()
    else:
        yield from _command_lines_of_ps()


def _command_lines_of_proc() -> Iterator[tuple[int, str]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            raw = path.read_bytes()
        except OSError:  # the process has ended
            continue
        if raw:
            yield int(path.parent.name), os.fsdecode(raw.replace(b"\0", b" "))


def _command_lines_of_ps() -> Iterator[tuple[int, str]]:
    listing = subprocess.run(["ps", "-axo", "pid=,command="], capture_output=True, check=True).stdout
    for line in os.fsdecode(listing).splitlines():
        pid, _, command = line.strip().partition(" ")
        yield int(pid), command


def send(pid: int, number: signal.Signals) -> None:
    """Signals a process; does nothing if it has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
