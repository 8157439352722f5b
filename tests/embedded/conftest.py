"""Folders and clusters for tests of the embedded database."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryapp.platform.embedded.paths import Cluster
from tests.embedded.cluster_use import await_end


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A folder with a space in its name that every account may pass through (pytest's own folders are closed)."""
    with tempfile.TemporaryDirectory(prefix="mnemoscope embedded ") as name:
        os.chmod(name, 0o711)
        yield Path(name).resolve()


@pytest.fixture
def folder(ground: Path) -> Path:
    """A new folder inside the open one."""
    made = Path(tempfile.mkdtemp(dir=ground))
    made.chmod(0o711)
    return made


@pytest.fixture
def cluster(ground: Path) -> Iterator[Cluster]:
    """A cluster that no process uses before or afterwards; its data is kept from test to test."""
    made = Cluster(ground / "postgres")
    yield made
    await_end(made)
