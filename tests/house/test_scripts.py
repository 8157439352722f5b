"""The scripts of pages, checked by TypeScript's compiler: names, properties and what functions are given."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.node import fetched, node

COMPILER = "typescript@5.9.3"
INTEGRITY = "sha512-jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw=="
PROJECT = Path(__file__).parent / "scripts"


def faults(project: Path) -> list[str]:
    command = [node(), str(fetched(COMPILER, INTEGRITY) / "lib" / "tsc.js"), "--pretty", "false", "--project"]
    checked = subprocess.run([*command, str(project)], capture_output=True, text=True)
    return checked.stdout.splitlines()


def test_scripts_use_what_there_is_as_it_is_meant() -> None:
    assert faults(PROJECT) == []


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ('htmx.ajaks("GET", "/");', "Property 'ajaks' does not exist"),
        ('document.querySelector("a").hidded = true;', "Property 'hidded' does not exist"),
        ('document.querySelector("input").value = 5;', "Type 'number' is not assignable to type 'string'"),
    ],
)
def test_a_slip_in_a_script_is_found(tmp_path: Path, script: str, fault: str) -> None:
    (tmp_path / "slip.js").write_text(script)
    project = {"extends": str(PROJECT / "tsconfig.json"), "include": ["slip.js", str(PROJECT / "page.d.ts")]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(project))
    (line,) = faults(tmp_path)
    assert fault in line
