"""A process that executes runs until it is killed: ``python -m tests.victim``.

Each line it reads names runs; it forks a child that executes them all at once, says so, and kills the child when
the next line comes.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from importlib import import_module

import django


def main() -> None:
    """Serve lines until there are no more."""
    django.setup()
    # What knows models can only be imported now, and before the forks, which then begin at once.
    hesitating = import_module("tests.hesitating")
    asyncio.run(hesitating.warm())
    for line in sys.stdin:
        child = os.fork()
        if not child:
            random.seed(line)
            asyncio.run(hesitating.execute(line.split()))
            os._exit(0)
        print("forked", flush=True)
        sys.stdin.readline()
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
