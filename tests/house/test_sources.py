"""No unused code, scripts that type-check, vendored files as recorded, and suites left out while their subject is as
released."""

import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.conf import settings
from vulture import Vulture

from memoryapp.platform.embedded.paths import CHECKOUT
from tests.gate import SUBJECTS, unchanged_suites
from tests.house.test_architecture import ROOT, modules
from tests.kept import kept
from tests.support.node import fetched, node

# Fields of these classes are columns, parts of an answer and settings, which are read by name.
READ_BY_NAME = (
    *("memoryapp/models/", "memoryapp/admin/", "memoryapp/doors/api/shapes/", "memoryapp/settings.py"),
    # What allauth calls and reads.
    *("memoryapp/platform/accounts/sign_on", "memoryapp/platform/accounts/second_factor.py"),
    "memoryapp/doors/mcp_server/oauth.py",
    # What Django calls of a session.
    "memoryapp/upkeep/demo/visits.py",
)
TAGS = re.compile(r"\{[{%].*?[%}]\}", re.S)
DOTTED = re.compile(r"""["'][\w.]+[.:](\w+)["']""")
OF_KEYWORD = re.compile(r"(\w+)=")


def names_beside_code() -> set[str]:
    """Returns words of template tags, ends of dotted names as in settings, and names of keyword arguments."""
    templates = [path.read_text(encoding="utf-8") for path in (ROOT / "templates").rglob("*.*")]
    tags = " ".join(tag for text in templates for tag in TAGS.findall(text))
    packages = ("memoryapp", "rerankui", "tools")
    code = " ".join(path.read_text(encoding="utf-8") for package in packages for path in modules(package))
    return {*re.findall(r"\w+", tags), *DOTTED.findall(code), *OF_KEYWORD.findall(code)}


def test_everything_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["vulture"]
    vulture = Vulture(**config)
    vulture.scavenge(["manage.py", "memoryapp", "rerankui", "tools"], exclude=["*/migrations/*"])
    beside = names_beside_code()
    unused = [
        f"{item.filename.relative_to(ROOT)}:{item.first_lineno} {item.typ} {item.name}"
        for item in vulture.get_unused_code(min_confidence=60)
        if item.name not in beside and not str(item.filename.relative_to(ROOT)).startswith(READ_BY_NAME)
    ]
    assert unused == []


# The scripts of pages, checked by TypeScript's compiler: names, properties and arguments of functions.


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


# Vendored files have the checksums that were recorded when they were copied.


FOLDER = settings.BASE_DIR / "static" / "vendor"
PAPERS = {"VENDOR.md", "LICENSES.txt"}


def test_every_vendored_file_has_its_sum_and_no_other_is_there() -> None:
    named = re.findall(r"^([0-9a-f]{64})  (\S+)$", (FOLDER / "VENDOR.md").read_text(encoding="utf-8"), re.M)
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir()}
    assert {name: value for value, name in named} == {n: v for n, v in found.items() if n not in PAPERS}


def test_styles_refer_only_to_what_is_there() -> None:
    for sheet in (FOLDER / "tabler.min.css", settings.BASE_DIR / "static" / "css" / "app.css"):
        for target in re.findall(r"url\([\"']?([^\"')]+)", sheet.read_text(encoding="utf-8")):
            assert target.startswith(("data:", "#")) or (sheet.parent / target).exists(), f"{sheet.name}: {target}"


# The tests that a change can break are run: whatever a suite covers brings the whole suite back.


EVERY = set(SUBJECTS)


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        (["docs/http.md", "templates/base.html", "memoryapp/search/retrieval.py"], EVERY),
        (["memoryapp/runs/claims.py"], {"embedded"}),
        (["memoryapp/upkeep/pipeline/archive.py"], {"peers"}),
        (["client/mnemoscope_client/calls.py"], {"embedded", "processes"}),
        (["tests/embedded/test_up.py"], {"processes", "peers"}),
        (["requirements.lock"], set()),
        (["tests/support/stack.py"], set()),
        ([], EVERY),
    ],
)
def test_a_suite_is_left_out_while_nothing_that_it_covers_changed(changed: Sequence[str], left: set[str]) -> None:
    assert unchanged_suites(changed) == left


def test_without_a_history_nothing_is_left_out() -> None:
    assert unchanged_suites(None) == set()


def test_every_subject_is_there_and_every_suite_has_tests_that_always_run() -> None:
    for suite, subject in SUBJECTS.items():
        assert [path for path in subject if not list(CHECKOUT.glob(f"{path}*"))] == []
        assert any("mark.smoke" in path.read_text() for path in (CHECKOUT / "tests" / suite).glob("test_*.py"))


# A test that grows without end fails by its name, and takes no other down with it.


# Grows in small steps, to 2 GB at most.
GROWING = """
from tests.support.memory_limit import watch
def grow():
    kept = []
    while len(kept) < 2000:
        kept.append(bytes([1]) * 2**20)
watch(2, 200 * 2**20, every=0.001)
grow()
"""


def test_a_process_beyond_the_limit_ends_with_the_name_of_its_test_and_where_it_was() -> None:
    command = [sys.executable, "-c", GROWING]
    environment = {"PYTEST_CURRENT_TEST": "tests/some/test_file.py::test_growing (call)"}
    ended = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "FAILED tests/some/test_file.py::test_growing (call): its process has grown to 2" in ended.stderr
    assert " in grow\n" in ended.stderr
