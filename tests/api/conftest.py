"""A memory of three topics for tests of the interface for programs."""

from __future__ import annotations

import pytest

from memoryapp.models import ChatUser, Topic
from tests.conftest import talk


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    """Three topics of an evening each, the second between the others; their messages are m0 to m7."""
    return talk(
        anna,
        ("Tea", ["Which tea?", "Green.", "Why green?", "It wakes you."]),
        ("Cats", ["How many?", "Three."]),
        ("More tea", ["And black tea?", "At five."]),
    )
