"""Memories for tests of the merger and of the archivist."""

from typing import Any

import pytest

from memoryapp.models import ChatUser
from tests.curation.merger_passes import Mode, wants


@pytest.fixture
def scale(settings: Any) -> None:
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.8


@pytest.fixture
def automatic(anna: ChatUser) -> ChatUser:
    return wants(anna, Mode.AUTOMATIC)


@pytest.fixture
def eager(anna: ChatUser) -> ChatUser:
    """Findings are used at once."""
    anna.extraction = ChatUser.Extraction.AUTOMATIC
    anna.save()
    return anna
