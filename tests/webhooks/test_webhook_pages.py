"""The pages of webhooks: made once, its secret shown once, tried, paused, sent again, removed; for admins alone."""

from __future__ import annotations

import html
import re

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.test import Client

from memoryapp.models import Webhook, WebhookDelivery
from memoryapp.platform.webhooks import sending
from tests.webhooks.receiver import answer, hooked, receiving

pytestmark = pytest.mark.django_db(transaction=True)
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
        shown = as_admin.get(page, {"state": "failed"}).content.decode()
        assert all(
            words in shown for words in ("it wants no more messages", "&lt;b&gt;no more", "Send the failed one again")
        )
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
