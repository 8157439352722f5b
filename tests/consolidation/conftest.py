"""Tests of the merger: topics that are near each other, and a chat user whose topics are merged automatically."""

from __future__ import annotations

from typing import Any

import pytest

from memoryapp.models import ChatUser
from tests.consolidation.merger_passes import Mode, wants


@pytest.fixture
def scale(settings: Any) -> None:
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.8


@pytest.fixture
def automatic(anna: ChatUser) -> ChatUser:
    return wants(anna, Mode.AUTOMATIC)
