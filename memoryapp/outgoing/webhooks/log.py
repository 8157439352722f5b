"""The log of messages: what was sent, sent once more by a person, and removed when it is old."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from memoryapp.models import Webhook, WebhookDelivery

State = WebhookDelivery.State
# How many messages the strip of a webhook shows.
STRIP = 40
_AT_ONCE = 5_000


def resend(rows: QuerySet[WebhookDelivery], webhook: Webhook) -> int:
    """Sends these messages of the webhook again, with the same ids, and as often as new ones; returns how many."""
    # The first attempt is over: what still waits for its first one is announced once.
    again = rows.filter(webhook=webhook).exclude(state=State.WAITING)
    count = again.update(state=State.WAITING, next_at=timezone.now(), attempts=1)
    if count:
        Webhook.objects.filter(pk=webhook.pk).update(rests_until=None)
    return count


def counts(webhook: Webhook) -> dict[str, int]:
    """The number of messages in each state."""
    counted = WebhookDelivery.objects.filter(webhook=webhook).order_by().values("state").annotate(n=Count("pk"))
    return {row["state"]: row["n"] for row in counted}


def strips(webhooks: Iterable[Webhook]) -> dict[int, list[Any]]:
    """The states of the latest messages of each, oldest first; one statement for each webhook."""
    return {
        hook.pk: list(
            WebhookDelivery.objects.filter(webhook=hook)
            .order_by("-at", "-id")
            .values_list("state", "kind", "at", named=True)[:STRIP]
        )[::-1]
        for hook in webhooks
    }


def waiting_count(webhook: Webhook) -> int:
    return WebhookDelivery.objects.filter(Q(state=State.WAITING), webhook=webhook).count()


def prune() -> int:
    """Removes messages that are older than WEBHOOK_KEEP, whatever became of them; returns how many."""
    old = WebhookDelivery.objects.filter(at__lt=timezone.now() - settings.WEBHOOK_KEEP).order_by("at")
    numbers = list(old.values_list("pk", flat=True)[:_AT_ONCE])
    rows = WebhookDelivery.objects.filter(pk__in=numbers)
    return rows._raw_delete(rows.db)
