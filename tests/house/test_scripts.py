"""The scripts of pages, checked by TypeScript's compiler: names, properties and arguments of functions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memoryapp.platform.embedded.paths import CHECKOUT
from tests.kept import kept
from tests.support.node import fetched, node

COMPILER = "typescript@5.9.3"
INTEGRITY = "sha512-jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw=="
PROJECT = Path(__file__).parent / "scripts"


def faults(project: Path) -> list[str]:
    command = [node(), str(fetched(COMPILER, INTEGRITY) / "lib" / "tsc.js"), "--pretty", "false", "--project"]
    checked = subprocess.run([*command, str(project)], capture_output=True, text=True)
    return checked.stdout.splitlines()


def test_scripts_use_what_there_is_as_it_is_meant(pytestconfig: pytest.Config) -> None:
    checked = sorted([*(CHECKOUT / "static" / "js").rglob("*.js"), *PROJECT.iterdir(), Path(__file__)])
    with kept(pytestconfig, *(f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in checked)) as is_known:
        assert is_known or faults(PROJECT) == []
