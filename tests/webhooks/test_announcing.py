"""What webhooks are told of: written with what happened or not at all, and without a text of a memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from memoryapp import erasure
from memoryapp.erasure import Target
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Evaluation, Finding, Message, Run, Suggestion, Topic, WebhookDelivery
from memoryapp.platform.webhooks import announcing, sending
from memoryapp.platform.webhooks.announcing import announce, announce_waiting
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import open_clients
from tests.conftest import talk
from tests.support.executing import TOPICS, memory_of_three, start
from tests.webhooks.receiver import hooked, receiving

pytestmark = pytest.mark.django_db(transaction=True)


def kinds() -> list[str]:
    return list(WebhookDelivery.objects.order_by("pk").values_list("kind", flat=True))


async def test_the_end_of_a_run_is_announced_with_it_and_that_of_an_evaluations_run_is_not() -> None:
    await sync_to_async(hooked)("http://127.0.0.1:9/")
    await sync_to_async(hooked)("http://127.0.0.1:9/", announcing.RUN_FELL_BACK, name="only fallbacks")
    owner = await memory_of_three()
    evaluation = await Evaluation.objects.acreate(source="x", strategy="vector")
    run = await start(owner, strategy="vector")
    counted = await start(owner, strategy="vector", evaluation=evaluation)
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, clients)
        await lifecycle.execute(counted.pk, clients)
    (row,) = [row async for row in WebhookDelivery.objects.all()]
    assert (row.kind, row.subject, row.owner_id) == ("run.finished", str(run.pk), owner.pk)
    # A run whose process was lost ends in another way, and with a fallback.
    lost = await start(owner, strategy="flash")
    await Run.objects.filter(pk=lost.pk).aupdate(state="running", attempt=9, heartbeat_at="2026-01-01T00:00:00Z")
    assert await sync_to_async(endings.close_abandoned)() == 1
    assert await sync_to_async(kinds)() == ["run.finished", "run.finished", "run.fell_back", "run.fell_back"]
    assert await sync_to_async(list)(violations(owner)) == []


@override_settings(PUBLIC_URL="https://memory.example.com")
def test_a_message_says_where_to_read_and_nothing_that_was_said() -> None:
    with receiving() as receiver:
        hook, secret = hooked(receiver.url)
        owner = async_to_sync(memory_of_three)()
        run = Run.objects.create(
            owner=owner, query="a private question", strategy="flash", state="finished", fallback="timeout"
        )
        announce(announcing.RUN_FELL_BACK, owner=owner.pk, subject=str(run.pk))
        announce_waiting(owner.pk)
        Finding.objects.create(owner=owner, noun="fact", topic=Topic.objects.first(), values={"content": "private"})
        Suggestion.objects.create(owner=owner, kind="merge", key="merge-1-2", topics=[1, 2], evidence={})
        WebhookDelivery.objects.update(next_at=timezone.now())
        async_to_sync(sending.send_due)()
        read = {message["type"]: message["data"] for message in map(json.loads, (b for _h, b in receiver.received))}
        assert read["run.fell_back"] == {
            "run": str(run.pk),
            "url": f"https://memory.example.com/runs/{run.pk}/",
            "user": "anna",
            "strategy": "flash",
            "parent": None,
            "fallback": "timeout",
            **dict.fromkeys(("topics", "people", "artifacts", "turns"), 0),
            **dict.fromkeys(("cost_usd", "seconds"), 0.0),
        }
        assert read["inbox.waiting"] == {
            "user": "anna",
            "url": f"https://memory.example.com/memory/{owner.pk}/inbox/",
            "findings": 1,
            "suggestions": 1,
        }
        assert not any(b"private" in body for _headers, body in receiver.received)
        assert receiver.verified(secret)


def test_what_is_rolled_back_is_not_announced_and_what_waits_is_announced_once(anna: ChatUser) -> None:
    hooked("http://127.0.0.1:9/")
    with transaction.atomic():
        announce_waiting(anna.pk)
        transaction.set_rollback(True)
    assert kinds() == []
    for _time in range(3):
        announce_waiting(anna.pk)
    assert kinds() == ["inbox.waiting"]
    assert not sending.is_due()
    # Decided before it was sent: there is nothing to say.
    WebhookDelivery.objects.update(next_at=timezone.now())
    assert async_to_sync(sending.send_due)() == 0
    assert kinds() == []


def test_an_erasure_is_announced_when_it_is_done_and_takes_the_messages_about_a_chat_user(boris: ChatUser) -> None:
    with receiving() as receiver:
        _hook, secret = hooked(receiver.url)
        talk(boris, *TOPICS)
        message = Message.objects.of(boris).in_order()[0]
        first = erasure.finish(erasure.begin(Target(boris.pk, (message.pk,)), "ada"))
        announce_waiting(boris.pk)
        whole = erasure.finish(erasure.begin_user(boris, "ada"))
        assert whole.ended_at
        assert whole.counts["memoryapp_webhookdelivery"] == 1
        async_to_sync(sending.send_due)()
        sent: list[dict[str, Any]] = [receiver.verified(secret, place)["data"] for place in range(2)]
        assert {(each["receipt"], each["kind"]) for each in sent} == {(first.pk, "messages"), (whole.pk, "user")}
        assert not any(b"boris" in body for _headers, body in receiver.received)
        rows = {(row.kind, row.state) for row in WebhookDelivery.objects.all()}
        assert rows == {("erasure.finished", "delivered")}
