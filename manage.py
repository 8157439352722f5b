"""The door: any Python 3.11 or newer may open it; what comes after runs inside `.venv`.

`up` and `test` make that environment first, so a fresh clone needs nothing but Python.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python is exactly who reads this sentence
    sys.exit("Mnemoscope needs Python 3.11 or newer; this is Python {}.{}.".format(*sys.version_info))
if os.name != "posix":
    sys.exit("Mnemoscope runs on Linux and macOS; on Windows, use it inside WSL.")

from memoryapp.platform.embedded import bootstrap

if __name__ == "__main__":
    bootstrap.enter(sys.argv)
    from memoryapp.platform.embedded.command_line import main

    main(sys.argv)
