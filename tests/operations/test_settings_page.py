"""docs/settings.md has every setting that the program reads, with its default and its bounds, and no other."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Callable
from typing import Any

import pytest

from memoryapp import settings as module
from memoryapp.platform import environment
from memoryapp.platform.embedded import command_line
from memoryapp.platform.embedded.paths import CHECKOUT

PAGE = (CHECKOUT / "docs" / "settings.md").read_text(encoding="utf-8")
CELLS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
ROWS = {name.strip("`"): (default, bounds) for name, default, bounds, _meaning in CELLS}
READERS = (
    *("text", "secret", "whole", "number", "switch", "choice", "choice_or_nothing", "mapping", "names", "rate"),
    *("address", "addresses", "seconds"),
)
READ_IN_CODE = re.compile(r'\benvironment\.\w+\(\s*"([A-Z_]+)"')
# Variables that are read outside of the module of settings.
DIRECT = {"DATA_DIR", "PROMETHEUS_MULTIPROC_DIR"}
# Set by the tests for the processes that they start.
INTERNAL = {"MNEMOSCOPE_THROWAWAY"}
NO_LIMIT = 10**9

Read = tuple[str, dict[str, Any]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, Read]:
    """Returns the function that reads each setting, and the function's arguments."""
    found: dict[str, Read] = {}

    def recorded(kind: str, reader: Callable[..., Any]) -> Callable[..., Any]:
        def record(*given: Any, **named: Any) -> Any:
            arguments = inspect.signature(reader).bind(*given, **named)
            arguments.apply_defaults()
            # A function that reads a setting may call another one for the same setting.
            found.setdefault(arguments.arguments["name"], (kind, arguments.arguments))
            return reader(*given, **named)

        return record

    for kind in READERS:
        monkeypatch.setattr(environment, kind, recorded(kind, getattr(environment, kind)))
    monkeypatch.setattr("os.environ", {"SECRET_KEY": "known-only-to-this-test-and-long-enough"})
    runpy.run_path(str(module.__file__))
    return {name: how for name, how in found.items() if name not in INTERNAL}


def test_every_setting_is_on_the_page_and_the_page_has_no_other(read: dict[str, Read]) -> None:
    sources = (path.read_text(encoding="utf-8") for path in (CHECKOUT / "memoryapp").rglob("*.py"))
    elsewhere = {name for source in sources for name in READ_IN_CODE.findall(source)}
    assert ROWS.keys() == read.keys() | elsewhere | DIRECT


def test_the_page_has_the_defaults(read: dict[str, Read]) -> None:
    written = {name: default.strip("`") for name, (default, _bounds) in ROWS.items() if default.startswith("`")}
    simple = {name: default for name, default in written.items() if name in read and "`" not in default}
    assert {name: default for name, default in simple.items() if default not in (*ROWS, default_of(*read[name]))} == {}


def default_of(kind: str, arguments: dict[str, Any]) -> str:
    if kind == "mapping":
        return "{}"
    default = arguments["default"]
    return str(default).lower() if kind == "switch" else str(default).replace(".0s", "s")


def test_the_page_has_the_bounds(read: dict[str, Read]) -> None:
    expected = {name: bounds_of(kind, arguments) for name, (kind, arguments) in read.items()}
    assert {name: ROWS[name][1] for name in expected if ROWS[name][1] != expected[name]} == {}


def bounds_of(kind: str, arguments: dict[str, Any]) -> str:
    if kind == "secret":
        return f"at least {arguments['least']} characters"
    if options := arguments.get("options"):
        return ", ".join(f"`{option}`" for option in options) + (", or empty" if kind == "choice_or_nothing" else "")
    if "most" not in arguments:
        return ""
    unit = " s" if kind == "seconds" else ""
    least, most = arguments["least"], arguments["most"]
    return f"at least {least}{unit}" if most == NO_LIMIT else f"{least}–{most}{unit}"


def test_no_setting_of_a_person_reaches_the_tests() -> None:
    cleared = command_line._SETTINGS
    kept = {name for name in ROWS if name not in cleared and not name.startswith(command_line._FAMILIES)}
    assert kept <= {"PROMETHEUS_MULTIPROC_DIR"}
