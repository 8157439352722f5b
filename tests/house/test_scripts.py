"""The scripts of pages, checked by TypeScript's compiler: names, properties and arguments of functions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from memoryapp.embedded.paths import CHECKOUT
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


SLIPS = {
    "name": ('htmx.ajaks("GET", "/");', "Property 'ajaks' does not exist"),
    "property": ('document.querySelector("a").hidded = true;', "Property 'hidded' does not exist"),
    "value": ('document.querySelector("input").value = 5;', "Type 'number' is not assignable to type 'string'"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Returns the compiler's messages about all faults at once, because starting it takes longer than the check."""
    folder = tmp_path_factory.mktemp("slips")
    for name, (script, _fault) in SLIPS.items():
        (folder / f"{name}.js").write_text(script)
    project = {"extends": str(PROJECT / "tsconfig.json"), "include": ["*.js", str(PROJECT / "page.d.ts")]}
    (folder / "tsconfig.json").write_text(json.dumps(project))
    return faults(folder)


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_in_a_script_is_found(found: list[str], name: str) -> None:
    (line,) = [line for line in found if f"{name}.js(" in line]
    assert SLIPS[name][1] in line


def test_nothing_but_the_slips_is_found(found: list[str]) -> None:
    assert len(found) == len(SLIPS), found
