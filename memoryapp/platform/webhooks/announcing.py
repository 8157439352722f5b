"""Announces what happened: a row for each webhook that wants to know, in the transaction of what is announced.

A webhook that is removed meanwhile waits, and takes the row along. So nothing is lost when the process is killed, and
nothing is sent of what was rolled back. Whoever announces waits for no receiver; without webhooks it is one statement
over an empty table."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.urls import reverse

from memoryapp.engine.beside import table_beside
from memoryapp.models import (
    Alarm,
    AuditEntry,
    Erasure,
    ExpiryBatch,
    Finding,
    GoldenNight,
    Run,
    Suggestion,
    WebhookDelivery,
)
from memoryapp.platform.statements import execute

RUN_FINISHED = "run.finished"
RUN_FELL_BACK = "run.fell_back"
GOLDEN_DROPPED = "golden_run.dropped"
GOLDEN_RECOVERED = "golden_run.recovered"
INBOX_WAITING = "inbox.waiting"
ERASURE_FINISHED = "erasure.finished"
AUDIT_SEALED = "audit.sealed"
RETENTION_DUE = "retention.due"
ALARM_RAISED = "alarm.raised"
ALARM_HEALED = "alarm.healed"
# What a webhook can be for. Names are parts of the interface; they never change.
KINDS = (
    *(RUN_FINISHED, RUN_FELL_BACK, GOLDEN_DROPPED, GOLDEN_RECOVERED, INBOX_WAITING, ERASURE_FINISHED, AUDIT_SEALED),
    *(ALARM_RAISED, ALARM_HEALED, RETENTION_DUE),
)
# Goes to the one webhook that is tried.
TEST = "webhook.test"
# Ends of a run that somebody intended, or that had nothing to choose from.
_MEANT = ("", "disabled", "stopped", "no_candidates")
# Findings come one after another; what came within this time is announced once.
_GATHERED = timedelta(minutes=1)

_SQL = table_beside(__file__)
_ANNOUNCE: str = _SQL["announce"]
RUN_ENDED: str = _SQL["run_ended"]
RUN_ENDED_ALONE: str = _SQL["run_ended_alone"]


def news_of_run(fallback: str) -> list[str]:
    """The kinds by which the end of a run with this fallback is announced."""
    return [RUN_FINISHED] if fallback in _MEANT else [RUN_FINISHED, RUN_FELL_BACK]


def announce(kind: str, *, owner: int | None = None, subject: str = "", after: timedelta = timedelta(0)) -> None:
    """Writes the rows; call it in the transaction of what happened. Nothing is sent before ``after`` has passed."""
    values: dict[str, Any] = {"kind": kind, "owner": owner, "subject": subject, "after": after}
    execute(_ANNOUNCE, values)


def announce_waiting(owner: int) -> None:
    """Announces that something waits for a person in this memory, once for all that comes within a minute."""
    announce(INBOX_WAITING, owner=owner, after=_GATHERED)


# The bodies of messages: what happened, when, and where to read it; never a text of a memory.
#
# Each is ``{"type", "timestamp", "data"}`` with ids, addresses, counts and the name of the chat user. docs/http.md
# describes the data of each kind.

# Counts stop here, so that a message costs the same however much is waiting.
_MOST = 1_000
# Entries of the audit log that one message carries.
MOST_AUDITED = 200

Data = Mapping[str, Any]


def body_of(delivery: WebhookDelivery) -> str:
    """The body as it is sent; empty if there is nothing to say any more, because the row is gone or decided."""
    try:
        data = _DATA[delivery.kind](delivery)
    except ObjectDoesNotExist:
        data = None
    if data is None:
        return ""
    at = delivery.at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    message = {"type": delivery.kind, "timestamp": at, "data": data}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def address_of(route: str, *arguments: object) -> str:
    """The address of a page: whole where the installation knows its own, otherwise its path."""
    return settings.PUBLIC_URL + reverse(route, args=arguments)


def _run(delivery: WebhookDelivery) -> Data:
    run = Run.objects.select_related("owner").get(pk=delivery.subject)
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


def _erasure(delivery: WebhookDelivery) -> Data:
    receipt = Erasure.objects.get(pk=delivery.subject)
    url = address_of("erasure", receipt.pk)
    return {"receipt": receipt.pk, "url": url, "kind": receipt.kind, "rows": receipt.rows}


def _golden(delivery: WebhookDelivery) -> Data:
    night = GoldenNight.objects.select_related("nightly").get(pk=delivery.subject)
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


def _audited(delivery: WebhookDelivery) -> Data | None:
    first, _dash, last = delivery.subject.partition("-")
    rows = AuditEntry.objects.filter(place__range=(int(first), int(last))).order_by("place")
    entries = [row.sealed_document for row in rows]
    return {"url": address_of("audit"), "entries": entries} if entries else None


def _alarm(delivery: WebhookDelivery) -> Data:
    row = Alarm.objects.select_related("rhythm").get(pk=delivery.subject)
    times = {"raised_at": row.raised_at, "healed_at": row.healed_at, "good_at": row.rhythm.good_at}
    return {
        **{"alarm": row.pk, "watch": row.rhythm.watch, "subject": row.rhythm.subject, "waiting": row.rhythm.depth},
        **{name: at and at.isoformat() for name, at in times.items()},
        "url": address_of("alarms"),
    }


def _expiring(delivery: WebhookDelivery) -> Data:
    batch = ExpiryBatch.objects.select_related("owner", "rule").get(pk=delivery.subject)
    told = {"batch": batch.pk, "url": address_of("expiring", batch.owner_id, batch.pk), "user": batch.owner.name}
    told |= {"rule": batch.rule_id, "noun": batch.rule.noun, "state": batch.state, "rows": batch.count}
    return {**told, "due_at": batch.due_at.isoformat(), "receipt": batch.receipt_id}


_DATA: Mapping[str, Callable[[WebhookDelivery], Data | None]] = {
    RUN_FINISHED: _run,
    RUN_FELL_BACK: _run,
    INBOX_WAITING: _waiting,
    ERASURE_FINISHED: _erasure,
    GOLDEN_DROPPED: _golden,
    AUDIT_SEALED: _audited,
    RETENTION_DUE: _expiring,
    GOLDEN_RECOVERED: _golden,
    ALARM_RAISED: _alarm,
    ALARM_HEALED: _alarm,
    TEST: lambda delivery: {"url": address_of("webhook", delivery.webhook_id)},
}
