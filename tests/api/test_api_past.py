"""``as_of`` of ``POST /v1/recall``: the memory of an earlier moment."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import AsyncClient
from django.utils import timezone

from memoryapp.models import Run
from memoryapp.runs.runner import Runner
from tests.api.test_api_recall import client, memory, post, runner

__all__ = ["client", "memory", "runner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


async def test_an_earlier_memory_is_searched_and_the_next_call_searches_today(
    client: AsyncClient, runner: Runner
) -> None:
    before = (timezone.now() - timedelta(days=1)).isoformat()
    then = (await post(client, "/v1/recall", strategy="vector", as_of=before)).json()
    assert then["topics"] == [], "the memory was empty then"
    assert (await Run.objects.aget(pk=then["run"])).changes == {"as_of": before}
    assert (await post(client, "/v1/recall", strategy="vector", as_of=timezone.now().isoformat())).json()["topics"]
    assert (await post(client, "/v1/recall", strategy="vector")).json()["topics"]


@pytest.mark.parametrize(
    "asked", [{"as_of": "soon"}, {"as_of": "2026-03-02", "strategy": "plain"}, {"as_of": "9" * 41}]
)
async def test_what_cannot_be_searched_is_refused_with_a_sentence(
    client: AsyncClient, runner: Runner, asked: dict[str, str]
) -> None:
    answer = await post(client, "/v1/recall", **asked)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]
    assert not await Run.objects.aexists()
