"""Webhooks: what they are told, signed and repeated until it arrives, and their pages."""

import html
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client, override_settings
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from standardwebhooks.webhooks import WebhookVerificationError

from memoryapp import erasure
from memoryapp.erasure import Target
from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Evaluation, Finding, Message, Run, Suggestion, Topic, Webhook, WebhookDelivery
from memoryapp.platform.webhooks import announcing, receivers, sending
from memoryapp.platform.webhooks.announcing import KINDS, announce, announce_waiting
from memoryapp.platform.webhooks.receivers import AddressError
from memoryapp.runs import endings, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.upkeep import tasks
from tests.conftest import talk
from tests.platform.receiver import Receiver, answer, endless, hang_up, hooked, receiving
from tests.support.clock import PATIENCE
from tests.support.executing import TOPICS, memory_of_three, start
from tests.support.stack import free_port

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def sent() -> int:
    """Sends what is due, as the worker does."""
    return async_to_sync(sending.send_due)()


def due_again() -> None:
    """Lets the time pass until everything that waits is due."""
    WebhookDelivery.objects.filter(state="waiting").update(next_at=timezone.now())
    Webhook.objects.update(rests_until=None)


def test_the_library_of_the_specification_verifies_what_is_sent(receiver: Receiver) -> None:
    hook, secret = hooked(receiver.url)
    row = receivers.test(hook)
    tasks.send_webhooks()
    read = receiver.verified(secret)
    row.refresh_from_db()
    assert (read["type"], read["data"]) == ("webhook.test", {"url": f"/webhooks/{hook.pk}/"})
    assert read["timestamp"].endswith("Z")
    assert (row.state, row.status, row.response, len(row.tries)) == ("delivered", 200, "thank you", 1)
    assert receiver.ids == [row.message_id]
    headers = receiver.received[0][0]
    assert headers["host"].startswith("localhost:")
    assert headers["content-type"] == "application/json"
    receiver.received[0] = (headers, receiver.received[0][1].replace(b"test", b"best"))
    with pytest.raises(WebhookVerificationError):
        receiver.verified(secret)


def test_a_new_secret_and_the_former_one_are_both_good_for_a_day(receiver: Receiver) -> None:
    hook, former = hooked(receiver.url)
    secret = receivers.rotate(hook, nonce=receivers.new_nonce(), by=hook_maker())
    receivers.test(hook)
    sent()
    assert receiver.verified(former) == receiver.verified(secret)
    Webhook.objects.update(former_until=timezone.now())
    receivers.test(hook)
    sent()
    assert receiver.verified(secret)
    with pytest.raises(WebhookVerificationError):
        receiver.verified(former)


def hook_maker() -> User:
    return User.objects.get(username="ada")


@pytest.mark.parametrize(
    ("play", "status", "fault"),
    [
        (answer(500), 500, "status"),
        (answer(302, Location="http://127.0.0.1/elsewhere"), 302, "redirect"),
        (endless, 500, "status"),
        (hang_up, None, "broken"),
    ],
    ids=["failed", "redirected", "endless", "hung up"],
)
def test_a_failure_is_repeated_with_the_same_id_and_the_next_message_arrives(
    receiver: Receiver, play: Any, status: int | None, fault: str
) -> None:
    hook, secret = hooked(receiver.url)
    receiver.play = play
    row = receivers.test(hook)
    asked_at = timezone.now()
    sent()
    answered_at = timezone.now()
    row.refresh_from_db()
    assert (row.state, row.status, row.fault) == ("waiting", status, fault)
    assert len(row.response) <= 1_000
    assert asked_at + timedelta(seconds=3) < row.next_at < answered_at + timedelta(seconds=6)
    WebhookDelivery.objects.update(next_at=timezone.now() + timedelta(seconds=PATIENCE))
    assert sent() == 0
    receiver.play = answer(204, b"")
    due_again()
    sent()
    row.refresh_from_db()
    assert (row.state, [each["fault"] for each in row.tries]) == ("delivered", [fault, ""])
    assert len(receiver.ids) == 2
    assert len({*receiver.ids}) == 1
    assert receiver.verified(secret)["type"] == "webhook.test"
    hook.refresh_from_db()
    assert (hook.failures, hook.failing_since) == (0, None)


@override_settings(WEBHOOK_TIMEOUT=6)
def test_one_dead_receiver_holds_up_no_other(receiver: Receiver) -> None:
    dead, _secret = hooked(f"http://127.0.0.1:{free_port()}/", name="dead")
    with receiving() as slow:
        slow.play = slow.wait
        hung, _secret = hooked(slow.url, name="slow")
        live, _secret = hooked(receiver.url)
        for hook in (dead, hung, live):
            WebhookDelivery.objects.bulk_create(WebhookDelivery(webhook=hook, kind="webhook.test") for _ in range(20))
        sent()
        delivered = WebhookDelivery.objects.filter(state="delivered").values_list("webhook__name", flat=True)
        assert list(delivered) == ["bot"] * 20
        faults = {row.webhook_id: row.fault for row in WebhookDelivery.objects.exclude(fault="")}
        assert faults == {dead.pk: "refused", hung.pk: "timeout"}
        # A receiver that fails is asked with one message at a time, and the others keep their attempts.
        due_again()
        before = len(slow.received)
        sent()
        assert len(slow.received) == before + 1
        slow.gate.set()
        WebhookDelivery.objects.filter(webhook=dead).delete()
        while WebhookDelivery.objects.filter(state="waiting").exists():
            due_again()
            assert sent()
        assert {*WebhookDelivery.objects.values_list("state", flat=True)} == {"delivered"}


def test_a_message_is_given_up_after_three_days_and_a_silent_receiver_is_switched_off(receiver: Receiver) -> None:
    hook, _secret = hooked(receiver.url)
    receiver.play = answer(503, Retry_After="7200")
    row = receivers.test(hook)
    sent()
    row.refresh_from_db()
    hook.refresh_from_db()
    assert row.next_at - timezone.now() > timedelta(hours=1.9)
    assert hook.rests_until
    assert hook.rests_until - timezone.now() > timedelta(hours=1.9)
    receiver.play = answer(500)
    delays = []
    while row.state == "waiting":
        due_again()
        Webhook.objects.update(failing_since=timezone.now() - timedelta(days=6))
        assert sent() == 1
        row.refresh_from_db()
        delays.append(row.next_at - timezone.now())
    assert (row.state, len(receiver.received)) == ("failed", 10)
    assert sum(delays, timedelta()) > timedelta(days=3)
    hook.refresh_from_db()
    assert (hook.state, hook.off_reason) == ("off", "failing")
    receiver.play = answer(200)
    receivers.resume(hook, by=hook_maker())
    assert sending.resend(WebhookDelivery.objects.all(), hook) == 1
    sent()
    row.refresh_from_db()
    assert row.state == "delivered"
    assert len({*receiver.ids}) == 1


def test_what_a_killed_process_was_sending_is_sent_by_the_next(receiver: Receiver) -> None:
    hook, _secret = hooked(receiver.url)
    row = receivers.test(hook)
    assert sending._claimed(()) == [[row]]
    assert sent() == 0
    WebhookDelivery.objects.update(next_at=timezone.now())
    assert sent() == 1
    assert receiver.ids == [row.message_id]


def test_a_paused_webhook_collects_and_another_key_sends_nothing(receiver: Receiver) -> None:
    hook, _secret = hooked(receiver.url)
    receivers.pause(hook, by=hook_maker())
    receivers.test(hook)
    assert sent() == 0
    receivers.resume(hook, by=hook_maker())
    with override_settings(SECRET_KEY="the key of a copy of the database, somewhere else"):
        assert sent() == 0
        hook.refresh_from_db()
        assert (hook.state, hook.off_reason, receiver.received) == ("off", "key", [])
        with pytest.raises(receivers.WebhookError):
            receivers.resume(hook, by=hook_maker())
        secret = receivers.rotate(hook, nonce=receivers.new_nonce(), by=hook_maker())
        hook.refresh_from_db()
        receivers.resume(hook, by=hook_maker())
        assert sent() == 1
        assert receiver.verified(secret)


def test_messages_go_to_no_place_that_is_not_permitted(receiver: Receiver) -> None:
    for never in (
        *("169.254.169.254", "[fe80::1]", "0.0.0.0", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
        *("[::169.254.169.254]", "[64:ff9b:1::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]", "[2001:0:0:0::5601:5601]"),
    ):
        with pytest.raises(AddressError):
            receivers.checked(f"http://{never}/latest/meta-data")
    for odd in (
        *("ftp://a.example", "http://", "/hook", "https://user:word@a.example/", "http://["),
        *("http://a.example:0/", "http://a.example:70000/"),
    ):
        with pytest.raises(AddressError):
            receivers.checked(odd)
    assert receivers.checked(" https://bücher.example/a?b=1#c ") == "https://xn--bcher-kva.example/a?b=1"
    # The name leads to this machine, which is found when it is looked up for the attempt.
    hook, _secret = hooked(receiver.url)
    row = receivers.test(hook)
    with override_settings(WEBHOOK_PRIVATE_ADDRESSES=False):
        with pytest.raises(AddressError):
            receivers.checked("http://127.0.0.1/")
        sent()
    row.refresh_from_db()
    assert (row.fault, row.state, receiver.received) == ("address", "waiting", [])
    due_again()
    sent()
    assert receiver.ids == [row.message_id]


def test_old_messages_are_removed_and_nothing_is_looked_up_when_nothing_is_due(
    receiver: Receiver, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    hook, _secret = hooked(receiver.url)
    receivers.test(hook)
    old = receivers.test(hook)
    WebhookDelivery.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=31))
    tasks.clear_webhooks()
    assert WebhookDelivery.objects.count() == 1
    sent()
    with django_assert_num_queries(3):
        tasks.send_webhooks()
    receivers.remove(hook, by=hook_maker())
    assert not WebhookDelivery.objects.exists()


def test_the_claim_uses_the_index_of_what_waits(receiver: Receiver) -> None:
    hook, _secret = hooked(receiver.url)
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(webhook=hook, kind=KINDS[0], state="delivered") for _ in range(3_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memoryapp_webhookdelivery")
        cursor.execute(f"EXPLAIN {sending._CLAIM}", {"lease": sending.LEASE, "busy": [], "most": 8, "receivers": 50})
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "webhookdelivery_due" in plan


# What webhooks are told of: written with what happened or not at all, and without a text of a memory.


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


# The pages of webhooks: made once, its secret shown once, tried, paused, sent again, removed; for admins alone.


SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{43}=")
NONCE = re.compile(r'name="nonce" value="([^"]+)"')
FIELDS = {"name": "bot", "kinds": ["run.finished", "golden_run.dropped"]}


def nonce_on(client: Client, path: str) -> str:
    found = NONCE.search(client.get(path).content.decode())
    assert found
    return html.unescape(found[1])


def test_a_webhook_is_made_once_and_shows_its_secret_once(as_admin: Client, as_debugger: Client) -> None:
    with receiving() as receiver:
        sent = {**FIELDS, "address": receiver.url, "nonce": nonce_on(as_admin, "/webhooks/new/")}
        assert as_debugger.post("/webhooks/new/", sent).status_code == 403
        for wrong in ({"address": "ftp://a"}, {"kinds": []}, {"name": "x" * 101}, {"nonce": "forged"}):
            assert as_admin.post("/webhooks/new/", {**sent, **wrong}).status_code == 422
        assert not Webhook.objects.exists()
        page = as_admin.post("/webhooks/new/", sent)
        (secret, _example) = SECRET.findall(html.unescape(page.content.decode()))
        assert page.status_code == 201
        assert "no-store" in page["Cache-Control"]
        assert as_admin.post("/webhooks/new/", sent).status_code == 302
        hook = Webhook.objects.get()
        assert hook.kinds == FIELDS["kinds"]
        for path in ("/webhooks/", f"/webhooks/{hook.pk}/", f"/webhooks/{hook.pk}/edit/"):
            assert not SECRET.search(as_admin.get(path, follow=True).content.decode())
            assert as_debugger.get(path).status_code == 403
        as_admin.post(f"/webhooks/{hook.pk}/act/", {"do": "test"})
        assert "every 2s" in as_admin.get(f"/webhooks/{hook.pk}/").content.decode()
        async_to_sync(sending.send_due)()
        assert receiver.verified(secret)["type"] == "webhook.test"
        assert "every 2s" not in as_admin.get(f"/webhooks/{hook.pk}/").content.decode()
        rotated = as_admin.post(
            f"/webhooks/{hook.pk}/secret/", {"nonce": nonce_on(as_admin, f"/webhooks/{hook.pk}/secret/")}
        )
        (another, _example) = SECRET.findall(html.unescape(rotated.content.decode()))
        as_admin.post(f"/webhooks/{hook.pk}/act/", {"do": "test"})
        async_to_sync(sending.send_due)()
        assert receiver.verified(another) == receiver.verified(secret)
        assert LogEntry.objects.count() == 2


def test_what_failed_is_shown_with_its_reason_and_sent_again(as_admin: Client) -> None:
    with receiving() as receiver:
        hook, _secret = hooked(receiver.url)
        page = f"/webhooks/{hook.pk}/"
        receiver.play = answer(410, b"<b>no more</b>")
        as_admin.post(f"{page}act/", {"do": "test"})
        async_to_sync(sending.send_due)()
        hook.refresh_from_db()
        assert (hook.state, hook.off_reason) == ("off", "gone")
        shown = as_admin.get(page, {"state": "failed"}).content.decode()
        for words in ("it wants no more messages", "&lt;b&gt;no more", "Send the failed one again"):
            assert words in shown
        assert "webhook.test" not in as_admin.get(page, {"state": "delivered"}).content.decode()
        receiver.play = answer(200)
        assert as_admin.get(f"{page}act/").status_code == 405
        for act in ({"do": "resume"}, {"do": "resend"}):
            assert as_admin.post(f"{page}act/", act).status_code == 302
        async_to_sync(sending.send_due)()
        row = WebhookDelivery.objects.get()
        assert (row.state, len({*receiver.ids}), len(row.tries)) == ("delivered", 1, 2)
        for number in (str(row.pk), "9" * 30, "x"):
            as_admin.post(f"{page}act/", {"do": "resend", "delivery": number})
        async_to_sync(sending.send_due)()
        assert len(receiver.ids) == 3
        as_admin.post(f"{page}act/", {"do": "pause"})
        as_admin.post(f"{page}edit/", {"name": "robot", "kinds": ["inbox.waiting"], "address": receiver.url})
        hook.refresh_from_db()
        assert (hook.state, hook.name, hook.kinds) == ("paused", "robot", ["inbox.waiting"])
        assert as_admin.post(f"{page}delete/").status_code == 302
        assert not WebhookDelivery.objects.exists()
