"""The tests that a change can break are run: whatever a suite covers brings the whole suite back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memoryapp.platform.embedded.paths import CHECKOUT
from tests.gate import SUBJECTS, unchanged_suites

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
