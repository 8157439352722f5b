"""A memory of three topics for tests of the API."""

from collections.abc import AsyncIterator

import pytest

from memoryapp.doors.api import recall
from memoryapp.models import ChatUser
from memoryapp.runs.runner import Runner
from tests.support.api_client import Program, token_for


@pytest.fixture
def program(anna: ChatUser) -> Program:
    """A program that may do everything with Anna's memory."""
    return Program(token_for(anna))


@pytest.fixture
async def runner(memory: ChatUser, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runner]:
    """The runner of the web process, in this test's event loop."""
    made = Runner()
    made.bind()
    await made.clients()
    monkeypatch.setattr(recall, "runner", made)
    yield made
    await made.close()
