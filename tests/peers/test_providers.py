"""A whole rerank with each provider of the table in ``docs/endpoints.md``, as it is documented and reported."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from memoryapp.engine.chat.capabilities import Learnt
from memoryapp.engine.chat.client import ChatOptions, HttpChat
from memoryapp.engine.events import Retried, SteppedDown
from memoryapp.engine.parameters import Limits
from memoryapp.engine.strategies.flash import rerank
from tests.engine.reranks import end, ids, of
from tests.engine.scripted import emitted, request, topic_reader
from tests.peers.providers import Provider, providers

ALL = list(providers())


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", ALL, ids=[each.name for each in ALL])
@pytest.mark.parametrize("turns", [1, 3], ids=["is told to answer", "answers after reading"])
async def test_a_rerank_ends_with_the_models_choice_and_the_next_has_learnt(
    provider: Provider, stream: bool, turns: int
) -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(provider))
    chat = HttpChat(http, "https://models.example/v1", "secret-key", "m", ChatOptions(stream=stream), Learnt())
    for is_first in (True, False):
        limits = Limits(max_tool_calls=turns)
        events = await emitted(rerank, request(1, 2, 3), chat=chat, read_topics=topic_reader(), limits=limits)
        finished = end(events)
        assert (finished.fallback, ids(finished)) == ("", ["Topic:2"])
        assert finished.requested == ("Topic:2", "Topic:3")
        assert not of(Retried, events)
        assert is_first or not of(SteppedDown, events)


def test_the_table_names_each_provider() -> None:
    page = Path("docs/endpoints.md").read_text(encoding="utf-8")
    assert [each.name for each in ALL if f"| {each.name} |" not in page] == []
