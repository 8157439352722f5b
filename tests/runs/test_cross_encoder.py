"""A cross-encoder corrects the order of a search, and its failure breaks no recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.clients import offline_embedder
from memoryapp.engine.chat.cross_encoder import CrossEncoderError
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.engine.text.lexical import Floats
from memoryapp.models import ChatUser
from memoryapp.runs.clients import open_clients
from memoryapp.runs.recall.stages import recall
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.runs.test_recall_stages import asked, one

pytestmark = pytest.mark.django_db(transaction=True)

QUERY = "What hurts after the race?"


class Weather:
    """A cross-encoder that prefers texts about cats; while ``storms`` is true it fails."""

    model = "cats-first"

    def __init__(self) -> None:
        self.storms = True
        self.read: list[str] = []

    async def scores(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        self.read = list(texts)
        if self.storms:
            raise CrossEncoderError("The cross-encoder answered 500.")
        return np.array([8.0 if "cat" in text else -2.0 for text in texts])


def memory() -> ChatUser:
    owner = ChatUser.objects.create(name="anna")
    talk(
        owner,
        ("Knee", ["My knee hurts after the race", "Rest the knee"]),
        ("Sunday", ["The race was long", "Well done after the race"]),
        ("Cats", ["My cat hurts its paw", "Poor cat"]),
        *((f"Subject {n}", [f"Tell me of subject {n}", f"Subject {n} is large"]) for n in range(4)),
    )
    async_to_sync(embed_pending)(offline_embedder())
    return owner


async def test_after_a_storm_the_next_recall_is_in_the_cross_encoders_order() -> None:
    owner, weather = await sync_to_async(memory)(), Weather()
    request = asked(owner, query=QUERY)
    found = []
    async with open_clients() as opened:
        for encoder, storms in ((None, True), (weather, True), (weather, False)):
            weather.storms = storms
            events = [event async for event in recall(request, replace(opened, cross_encoder=encoder))]
            assert one(events, RunFinished).fallback == ""
            found.append(one(events, CandidatesFound))
        assert opened.pool.get_stats().get("requests_waiting", 0) == 0
    plain, stormy, fair = found
    assert plain.cross_encoder.model == ""
    assert stormy.cross_encoder.failure == "The cross-encoder answered 500."
    assert [each.id for each in stormy.candidates] == [each.id for each in plain.candidates]
    assert (plain.candidates[0].summary, fair.candidates[0].summary) == ("Knee", "Cats")
    assert (fair.cross_encoder.model, fair.cross_encoder.topics, fair.cross_encoder.failure) == ("cats-first", 7, "")
    assert "cat" in " ".join(weather.read)
    assert [each.rank for each in fair.ranked()] == list(range(1, 8))
    for each in fair.ranked():
        assert each.fused == pytest.approx(sum(each.parts.values()), abs=1e-4)


async def test_it_is_asked_before_the_cut() -> None:
    owner, weather = await sync_to_async(memory)(), Weather()
    weather.storms = False
    request = asked(owner, query=QUERY)
    request = replace(request, parameters=replace(request.parameters, candidates=1))
    async with open_clients() as opened:
        events = [event async for event in recall(request, replace(opened, cross_encoder=weather))]
    found = one(events, CandidatesFound)
    assert [each.summary for each in found.candidates] == ["Cats"]
    assert found.candidates[0].line.endswith("| Cats")
    assert len(found.below) == 6
