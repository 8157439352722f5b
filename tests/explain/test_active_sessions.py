"""What a run met in an active session is explained, and its use told, under the id of that session."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from memoryapp.insight.delivery import deliver
from memoryapp.insight.explain import why_not
from memoryapp.intake.archiving import archive
from memoryapp.memory.sessions import limits
from memoryapp.runs.clients import Clients
from memoryapp.upkeep import tasks
from tests.ingestion.test_archiving import in_pairs
from tests.sessions.test_active_sessions import FACT, asked, clients, found, speak_now
from tests.support.executing import memory_of_three

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]
__all__ = ["clients"]


@pytest.mark.parametrize("strategy", ["flash", "filter", "vector"])
async def test_it_is_explained_before_and_after_it_was_archived(clients: Clients, strategy: str) -> None:
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT, "Noted.", session="one")
    other, *_ = await speak_now(anna, "Good morning!", "Good morning.", session="two")
    await sync_to_async(tasks.index_talk)()
    run, events = await asked(anna, clients, strategy=strategy)
    session, beside = f"Session:{first.pk}", f"Session:{other.pk}"
    given: list[dict[str, Any]] = [{"topic": session}, {"message": first.external_id}, {"text": FACT}]
    for archived in (False, True):
        if archived:
            await sync_to_async(archive)(anna, in_pairs, limits(anna), now=True)
        for each in given:
            answer = await sync_to_async(why_not)(run, **each)
            assert (answer.stage, answer.topic) == ("chosen", session), (archived, each)
        left = await sync_to_async(why_not)(run, topic=beside)
        assert left.stage not in ("unknown", "in_session")
        assert (left.topic == beside) == (beside in [candidate.id for candidate in found(events).candidates])


async def test_an_answer_that_quotes_it_uses_it(clients: Clients) -> None:
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT, "Noted.")
    run, _events = await asked(anna, clients)
    delivered = await sync_to_async(deliver)(run, "It is 4711, the one with the blue frame.")
    assert f"Session:{first.pk}" in delivered.used
    answer = await sync_to_async(why_not)(run, topic=f"Session:{first.pk}")
    assert (answer.stage, answer.numbers["used"]) == ("chosen", "quoted")
