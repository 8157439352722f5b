"""The restriction of a search as a value, and the combination of two of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.memory import ANYWHERE, Where

DAYS = st.sampled_from(["", "2025-05-01"])
NAMES = st.sampled_from([(), ("a",)])


@given(st.builds(Where, DAYS, DAYS, NAMES, NAMES))
def test_what_a_run_sets_goes_before_what_a_strategy_asks(asked: Where) -> None:
    own = Where(since="2024-01-01", authors=("Vera",))
    assert asked.over(ANYWHERE) == ANYWHERE.over(asked) == asked
    assert own.over(asked) == Where("2024-01-01", asked.until, asked.channels, ("Vera",))


def test_a_filter_that_sets_nothing_is_none() -> None:
    assert not ANYWHERE
    assert all([Where(since="2025-05-01"), Where(until="2025-05-01"), Where(channels=("a",)), Where(authors=("a",))])
