"""A process that works until it is killed: ``python -m tests.support.victim tests.support.hesitating``. The argument is
the module that does the work. Each line of the input names the work; the process forks a child that does it, and prints
so. At the next line it kills the child, or waits for its end if the line says so, and prints how the child ended."""

import asyncio
import os
import random
import signal
import sys
from importlib import import_module

import django


def main() -> None:
    """Reads lines until there are no more."""
    django.setup()
    # Modules that use models can be imported only now, and before the forks, which then start at once.
    worker = import_module(sys.argv[1])
    asyncio.run(worker.warm())
    for line in sys.stdin:
        child = os.fork()
        if not child:
            random.seed(line)
            asyncio.run(worker.execute(line.split()))
            os._exit(0)
        print("forked", flush=True)
        if sys.stdin.readline().strip() != "wait":
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
