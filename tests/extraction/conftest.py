"""Chat users whose findings are used automatically, or wait for a person."""

from __future__ import annotations

import pytest

from memoryapp.models import ChatUser


@pytest.fixture
def eager(anna: ChatUser) -> ChatUser:
    """Findings are used at once."""
    anna.extraction = ChatUser.Extraction.AUTOMATIC
    anna.save()
    return anna
