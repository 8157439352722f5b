"""Ends a test process that has grown beyond a limit, by the name of its test, before the machine ends another process.
A limit of the kernel on addresses would count the stacks of threads and mapped models, which are never filled."""

import faulthandler
import os
import threading
from pathlib import Path
from time import sleep

LIMIT = 4 * 1024**3
_STATM = Path("/proc/self/statm")


def watch(errors: int, limit: int = LIMIT, *, every: float = 0.5) -> None:
    """Looks ``every`` some seconds at the memory of this process; beyond ``limit`` bytes it writes to the file
    ``errors`` which test grew where, and ends the process. pytest-xdist reports the test as failed and replaces the
    process, so the other tests go on. Does nothing where the system has no ``/proc``."""
    if _STATM.exists():
        threading.Thread(target=_watch, args=(errors, limit, every), name="memory limit", daemon=True).start()


def _watch(errors: int, limit: int, every: float) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    while (used := _own_pages() * page) <= limit:
        sleep(every)
    test = os.environ.get("PYTEST_CURRENT_TEST", "no test")
    os.write(errors, f"\nFAILED {test}: its process has grown to {used // 1024**2} MB. It was here:\n".encode())
    faulthandler.dump_traceback(errors)
    os._exit(1)


def _own_pages() -> int:
    """Without mapped files, whose pages the kernel takes back when it needs them."""
    _size, resident, shared = map(int, _STATM.read_text().split()[:3])
    return resident - shared
