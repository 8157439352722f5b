"""A cross-encoder corrects the order of a search, and its failure breaks no recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.engine.chat.cross_encoder import CrossEncoderError
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.engine.text.lexical import Floats
from memoryapp.models import ChatUser
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs.clients import open_clients
from memoryapp.runs.recall.stages import recall
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.runs.test_recall_stages import asked, one

pytestmark = pytest.mark.django_db(transaction=True)

QUERY = "What hurts after the race?"


class CatEncoder:
    """A cross-encoder that prefers texts about cats, or fails while ``fails`` is true."""

    model = "cats-first"

    def __init__(self) -> None:
        self.fails = True
        self.read: list[str] = []

    async def scores(self, query: str, texts: Sequence[str], seconds: float) -> Floats:
        self.read = list(texts)
        if self.fails:
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


async def test_after_a_failure_the_next_recall_is_in_the_cross_encoders_order() -> None:
    owner, cat_encoder = await sync_to_async(memory)(), CatEncoder()
    request = asked(owner, query=QUERY)
    found = []
    async with open_clients() as opened:
        for encoder, fails in ((None, True), (cat_encoder, True), (cat_encoder, False)):
            cat_encoder.fails = fails
            events = [event async for event in recall(request, replace(opened, cross_encoder=encoder))]
            assert one(events, RunFinished).fallback == ""
            found.append(one(events, CandidatesFound))
        assert opened.pool.get_stats().get("requests_waiting", 0) == 0
    plain, failed, corrected = found
    assert plain.cross_encoder.model == ""
    assert failed.cross_encoder.failure == "The cross-encoder answered 500."
    assert [each.id for each in failed.candidates] == [each.id for each in plain.candidates]
    assert (plain.candidates[0].summary, corrected.candidates[0].summary) == ("Knee", "Cats")
    by = corrected.cross_encoder
    assert (by.model, by.topics, by.failure) == ("cats-first", 7, "")
    assert "cat" in " ".join(cat_encoder.read)
    assert [each.rank for each in corrected.candidates] == list(range(1, 8))
    for each in corrected.candidates:
        assert each.fused == pytest.approx(sum(each.parts.values()), abs=1e-4)


async def test_it_is_asked_before_the_cut() -> None:
    owner, cat_encoder = await sync_to_async(memory)(), CatEncoder()
    cat_encoder.fails = False
    request = asked(owner, query=QUERY)
    request = replace(request, parameters=replace(request.parameters, candidates=1))
    async with open_clients() as opened:
        events = [event async for event in recall(request, replace(opened, cross_encoder=cat_encoder))]
    found = one(events, CandidatesFound)
    assert [each.summary for each in found.shown] == ["Cats"]
    assert found.candidates[0].line.endswith("| Cats")
    assert len(found.candidates) == 7
