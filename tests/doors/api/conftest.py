"""A memory of three topics for tests of the API."""

import pytest

from memoryapp.models import ChatUser, Topic
from tests.conftest import talk
from tests.support.api_client import Program, token_for


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    """Three topics, one for each evening; the second is between the others in time. Their messages are m0 to m7."""
    return talk(
        anna,
        ("Tea", ["Which tea?", "Green.", "Why green?", "It wakes you."]),
        ("Cats", ["How many?", "Three."]),
        ("More tea", ["And black tea?", "At five."]),
    )


@pytest.fixture
def program(anna: ChatUser) -> Program:
    """A program that may do everything with Anna's memory."""
    return Program(token_for(anna))
