"""The scripts of pages, checked by TypeScript's compiler: names, properties and arguments of functions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.node import fetched, node

COMPILER = "typescript@5.9.3"
INTEGRITY = "sha512-jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw=="
PROJECT = Path(__file__).parent / "scripts"


def test_scripts_use_what_there_is_as_it_is_meant() -> None:
    command = [node(), str(fetched(COMPILER, INTEGRITY) / "lib" / "tsc.js"), "--pretty", "false", "--project"]
    checked = subprocess.run([*command, str(PROJECT)], capture_output=True, text=True)
    assert checked.stdout.splitlines() == []
