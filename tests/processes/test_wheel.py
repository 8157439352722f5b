"""The package as anybody installs it: built, put into an empty environment, started outside of any checkout."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.clock import PATIENCE
from tests.support.stack import CHECKOUT, NOT_THEIRS, Stack

pytestmark = pytest.mark.slow

AT_THE_TOP = ("templates", "static")


def ran(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = ran(sys.executable, "-m", "build", "--wheel", "--outdir", folder, CHECKOUT, timeout=4 * PATIENCE)
    if done.returncode and re.search(r"No matching distribution|Connection|resolution", done.stdout + done.stderr):
        pytest.skip("the backend that builds the package cannot be fetched")
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has the wheel, and the packages of this one without its checkout."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    assert ran(sys.executable, "-m", "venv", "--without-pip", home).returncode == 0
    install = ("install", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", wheel)
    done = ran(sys.executable, "-m", "pip", "--python", home / "bin" / "python", *install)
    assert done.returncode == 0, done.stderr
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    return home / "bin" / "mnemoscope"


@pytest.fixture(scope="module")
def stack(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    at = tmp_path_factory.mktemp("nowhere")
    started = Stack(tmp_path_factory.mktemp("wheel-data") / "data", program=(str(program),), at=at, WEB_CONCURRENCY="1")
    yield started
    complaints = started.complaints()
    assert started.stop() == 0
    assert complaints == []
    assert list(at.iterdir()) == []


def test_every_file_of_the_program_is_in_the_wheel(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"{'rerankui/' if top in AT_THE_TOP else ''}{path.relative_to(CHECKOUT)}"
        for top in ("memoryapp", "rerankui", *AT_THE_TOP)
        for path in (CHECKOUT / top).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert expected - packed == set()
    tops = {name.partition("/")[0] for name in packed - expected}
    assert {top for top in tops if not top.endswith(".dist-info")} == set()


def test_the_installed_program_serves_pages_and_recalls_from_its_demo(stack: Stack, program: Path) -> None:
    with httpx.Client(base_url=stack.url, timeout=PATIENCE, follow_redirects=True) as browser:
        page = browser.get("/", headers={"Accept-Language": "ru"})
        assert "Войти" in page.text
        sheets = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page.text)
        assert sheets
        assert all(browser.get(sheet).status_code == 200 for sheet in sheets)
    outside = {"env": stack.environment, "cwd": stack.folder.parent}
    made = ran(program, "create_token", "p", "--scope", "recall,read", "--json", **outside)
    headers = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
    with httpx.Client(base_url=stack.url, timeout=PATIENCE, headers=headers) as api:
        users = [user["name"] for user in api.get("/v1/users").json()["users"]]
        answer = api.post("/v1/recall", json={"user": users[0], "query": "honey cake"})
    assert answer.json()["topics"]
    done = ran(program, "recall", "--user", users[0], "honey cake", "--json", **outside)
    assert json.loads(done.stdout)["topics"]


def test_without_a_data_folder_named_it_keeps_its_data_in_the_accounts_own(program: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NOT_THEIRS}
    environment |= {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": ""}
    where = "from memoryapp.platform.embedded import paths; print(paths.data_dir())"
    usual = ran(program.with_name("python"), "-c", where, env=environment, cwd=tmp_path).stdout.strip()
    folder = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
    assert usual == str(tmp_path / "home" / folder / "mnemoscope")
    chosen = environment | {"XDG_DATA_HOME": str(tmp_path / "data")}
    named = ran(program.with_name("python"), "-c", where, env=chosen, cwd=tmp_path)
    assert named.stdout.strip() == str(tmp_path / "data" / "mnemoscope")
    tested = ran(program, "test", env=environment, cwd=tmp_path)
    assert (tested.returncode, tested.stderr) == (
        1,
        "The tests are in a checkout of the program, not in its package.\n",
    )
