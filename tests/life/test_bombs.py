"""Whatever reads what others send counts it first: a small file never fills the memory, and the next one is read."""

import json
import os
from pathlib import Path

import pytest

from tests.life.bombs import BOMBS
from tests.support import forked

# Readers of documents have a process of their own, which ends at a limit.
MOST_MB, MOST_MB_OF_DOCUMENTS, MOST_SECONDS = 250, 800, 10.0


@pytest.mark.processes
@pytest.mark.slow
def test_every_reader_refuses_its_bomb_within_bounds_and_reads_the_next(tmp_path: Path) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memoryapp.settings", "DATA_DIR": str(tmp_path)}
    program = f"from tests.life.bombs import measure; measure({str(tmp_path)!r})"
    done = forked.run([forked.MANAGE, "shell", "--no-imports", "-c", program], environment)
    assert done.returncode == 0, done.stderr
    outcomes = dict(map(json.loads, done.stdout.splitlines()))
    assert outcomes.keys() == BOMBS.keys()
    for name, outcome in outcomes.items():
        assert BOMBS[name].says in outcome["bomb"], (name, outcome)
        assert bool(BOMBS[name].says) == bool(outcome["bomb"]) or "no text" in outcome["bomb"], (name, outcome)
        assert outcome["good"] == "", (name, outcome)
        most = MOST_MB_OF_DOCUMENTS if name.startswith(("word", "pdf")) else MOST_MB
        assert outcome["grown"] < most, (name, outcome)
        assert outcome["seconds"] < MOST_SECONDS, (name, outcome)
