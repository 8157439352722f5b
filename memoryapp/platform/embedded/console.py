"""The command ``mnemoscope`` of the installed package: manage.py without a checkout and without an own environment."""

import os
import sys


def main() -> None:
    """Runs one command."""
    if os.name != "posix":
        sys.exit("Mnemoscope runs on Linux and macOS; on Windows, use it inside WSL.")
    # The vectors are short: on two cores, BLAS threads wait for each other far longer than they work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from memoryapp.platform.embedded import command_line  # noqa: PLC0415 numpy reads the variable when it is imported

    command_line.main(sys.argv)
