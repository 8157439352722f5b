"""Payloads in the form of earlier versions, which a file of anybody may bear."""

from __future__ import annotations

from typing import Any

import pytest

from memoryapp.engine.events import upgraded

BELOW = {"id": ["Topic:2", "Topic:3"], "rank": [3, 2], "cosine": [0.2, 0.3]}


def test_what_was_not_shown_is_among_the_candidates_by_its_rank() -> None:
    read = upgraded({"candidates": [{"id": "Topic:1", "rank": 1}], "below": BELOW})
    assert [each["id"] for each in read["candidates"]] == ["Topic:1", "Topic:3", "Topic:2"]


@pytest.mark.parametrize(
    "below",
    [
        "abc",
        7,
        {**BELOW, "rank": [1]},
        {**BELOW, "rank": ["x", 1]},
        {**BELOW, "parts": {"words": [1.0]}},
        {**BELOW, "parts": [1]},
        {**BELOW, "terms": 5},
        {"id": ["Topic:2"]},
    ],
)
def test_what_no_version_stored_is_a_value_error(below: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        upgraded({"candidates": [], "below": below})
