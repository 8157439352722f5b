"""A test that grows without end fails by its name, and takes no other down with it."""

import subprocess
import sys

from memoryapp.platform.embedded.paths import CHECKOUT

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
