"""A program for Node.js, which npm fetches in one exact version and which is kept with the tools of .ci/run."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE

OLDEST = (20, 15)


def node() -> str:
    """Returns Node.js; skips the test if there is none, or one that is too old."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if not found or not npm:
        pytest.skip("node and npm are not installed")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        pytest.skip(f"node is {version.strip()}, older than {'.'.join(map(str, OLDEST))}")
    return found


def fetched(package: str, integrity: str) -> Path:
    """Returns the unpacked ``name@version``, whose archive has this npm integrity. Skips if npm cannot fetch it."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mnemoscope-ci"
    home = folder / re.sub(r"\W+", "-", package).strip("-")
    if home.exists():
        return home
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        archive = _packed(package, Path(scratch))
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        assert f"sha512-{digest}" == integrity, f"{package} is not what it was when it was chosen"
        with tarfile.open(archive) as packed:
            # Python before 3.11.4 has no filters, and from 3.12 it requires one.
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(Path(scratch) / "open")
        try:
            (Path(scratch) / "open" / "package").rename(home)
        except OSError:  # another test run fetched it meanwhile
            assert home.exists()
    return home


def _packed(package: str, folder: Path) -> Path:
    done = subprocess.run(
        ["npm", "pack", "--ignore-scripts", "--no-update-notifier", "--pack-destination", str(folder), package],
        cwd=folder,
        env={**os.environ, "npm_config_fetch_retries": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    archives = list(folder.glob("*.tgz"))
    if done.returncode or not archives:
        pytest.skip(f"npm could not fetch {package}: {done.stderr.strip()[-300:]}")
    return archives[0]


def installed(package: str) -> Path:
    """Returns a folder with ``name@version`` and what it depends on; no script of any of them runs. Skips like
    ``fetched``."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mnemoscope-ci"
    home = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', package).strip('-')}-installed"
    if home.exists():
        return home
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        done = subprocess.run(
            ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", package],
            cwd=scratch,
            env={**os.environ, "npm_config_fetch_retries": "1"},
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE,
        )
        if done.returncode:
            pytest.skip(f"npm could not install {package}: {done.stderr.strip()[-300:]}")
        try:
            shutil.copytree(scratch, home, symlinks=True)
        except FileExistsError:  # another test run installed it meanwhile
            assert home.exists()
    return home
