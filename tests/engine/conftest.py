"""Fixtures of the tests of the chat client."""

import pytest


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting takes no time and is recorded."""
    kept: list[float] = []

    async def sleep(seconds: float) -> None:
        kept.append(seconds)

    monkeypatch.setattr("memoryapp.engine.chat.client.asyncio.sleep", sleep)
    return kept
