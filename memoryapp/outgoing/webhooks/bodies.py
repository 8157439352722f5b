"""The bodies of messages: what happened, when, and where to read it; never a text of a memory.

Each is ``{"type", "timestamp", "data"}`` with ids, addresses, counts and the name of the chat user. docs/http.md
describes the data of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from django.conf import settings
from django.urls import reverse

from memoryapp.models import Erasure, Finding, GoldenNight, Run, Suggestion, WebhookDelivery
from memoryapp.outgoing.webhooks import announcing

# Counts stop here, so that a message costs the same however much is waiting.
_MOST = 1_000

Data = Mapping[str, Any]


def body_of(delivery: WebhookDelivery) -> str:
    """The body as it is sent; empty if there is nothing to say any more, because the row is gone or decided."""
    data = _DATA[delivery.kind](delivery)
    if data is None:
        return ""
    at = delivery.at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    message = {"type": delivery.kind, "timestamp": at, "data": data}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def address_of(route: str, *arguments: object) -> str:
    """The address of a page: whole where the installation knows its own, otherwise its path."""
    return settings.PUBLIC_URL + reverse(route, args=arguments)


def _run(delivery: WebhookDelivery) -> Data | None:
    run = Run.objects.select_related("owner").filter(pk=delivery.subject).first()
    if run is None:
        return None
    return {
        "run": str(run.pk),
        "url": address_of("run", run.pk),
        "user": run.owner.name,
        "strategy": run.strategy,
        "parent": str(run.parent_id) if run.parent_id else None,
        "fallback": run.fallback or None,
        "topics": run.selected_count,
        "people": run.selected_people_count,
        "artifacts": run.selected_artifact_count,
        "turns": run.turns,
        "cost_usd": run.cost_usd,
        "seconds": run.seconds,
    }


def _waiting(delivery: WebhookDelivery) -> Data | None:
    owner = delivery.owner
    if owner is None:
        return None
    findings = Finding.objects.filter(owner=owner, state=Finding.State.WAITING)[:_MOST].count()
    suggestions = Suggestion.objects.filter(owner=owner, state=Suggestion.State.OPEN)[:_MOST].count()
    if not findings and not suggestions:
        return None
    url = address_of("inbox", owner.pk)
    return {"user": owner.name, "url": url, "findings": findings, "suggestions": suggestions}


def _erasure(delivery: WebhookDelivery) -> Data | None:
    receipt = Erasure.objects.filter(pk=delivery.subject).first()
    if receipt is None:
        return None
    url = address_of("erasure", receipt.pk)
    return {"receipt": receipt.pk, "url": url, "kind": receipt.kind, "rows": receipt.rows}


def _golden(delivery: WebhookDelivery) -> Data | None:
    night = GoldenNight.objects.select_related("nightly").filter(pk=delivery.subject).first()
    if night is None:
        return None
    return {
        "night": night.pk,
        "url": address_of("nightly", night.nightly_id),
        "set": night.nightly.collection,
        "strategy": night.nightly.strategy,
        "model": night.model or None,
        "evaluation": night.evaluation_id,
        "against": night.against_id,
        "regressions": night.regressions,
    }


def _test(delivery: WebhookDelivery) -> Data:
    return {"url": address_of("webhook", delivery.webhook_id)}


_DATA: Mapping[str, Callable[[WebhookDelivery], Data | None]] = {
    announcing.RUN_FINISHED: _run,
    announcing.RUN_FELL_BACK: _run,
    announcing.INBOX_WAITING: _waiting,
    announcing.ERASURE_FINISHED: _erasure,
    announcing.GOLDEN_DROPPED: _golden,
    announcing.TEST: _test,
}
