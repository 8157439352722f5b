"""A memory with one row of each noun, for tests of who may see it."""

from __future__ import annotations

import pytest
from django.db.models import Model

from memoryapp.models import ChatUser
from tests.accounts.every_address import every_row


@pytest.fixture
def memory(anna: ChatUser) -> dict[str, Model]:
    return every_row(anna)
