"""What kinds, faults and reasons of webhooks are called on pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.models import WebhookDelivery
from memoryapp.outgoing.webhooks import announcing

# The name of each kind, and when it happens.
KINDS: Mapping[str, tuple[Promise, Promise]] = {
    announcing.RUN_FINISHED: (
        _("Run finished"),
        _("A recall or a question has ended, whatever came of it; not those of evaluations."),
    ),
    announcing.RUN_FELL_BACK: (
        _("Run fell back"),
        _("The model did not choose, because it failed, was late or could not be read."),
    ),
    announcing.GOLDEN_DROPPED: (
        _("Golden run dropped"),
        _("The golden questions of a night were answered worse than before."),
    ),
    announcing.INBOX_WAITING: (
        _("Decision waits"),
        _("New findings or suggestions wait for a person; gathered for a minute."),
    ),
    announcing.ERASURE_FINISHED: (_("Erasure done"), _("Erased words are gone; the receipt can be read.")),
}
TEST = _("Test message")
_FAULTS: Mapping[str, Promise] = {
    "timeout": _("no answer in time"),
    "refused": _("nobody accepts connections there"),
    "tls": _("its certificate is not accepted"),
    "name": _("nobody knows a machine of that name"),
    "address": _("its name leads to an address to which nothing is sent"),
    "broken": _("the connection broke"),
    "status": _("it answered %(status)s"),
    "redirect": _("it answered %(status)s, and redirects are not followed"),
    "gone": _("it answered 410: it wants no more messages"),
}
OFF: Mapping[str, Promise] = {
    "gone": _("The receiver answered 410: it wants no more messages."),
    "failing": _("Nothing has arrived for five days."),
    "key": _("The key of this installation was changed, so its secret is lost. Make a new one for the receiver."),
}


def kind_name(kind: str) -> str:
    return str(KINDS[kind][0] if kind in KINDS else TEST)


def outcome(fault: str, status: int | None) -> str:
    """What came of an attempt."""
    if not fault:
        return str(_FAULTS["status"]) % {"status": status}
    return str(_FAULTS.get(fault, _FAULTS["broken"])) % {"status": status}


@dataclass(frozen=True, slots=True)
class ShownTry:
    """An attempt: when, what came of it, in how many seconds."""

    at: datetime
    words: str
    seconds: float
    is_delivered: bool


@dataclass(frozen=True, slots=True)
class ShownDelivery:
    """A message as the log shows it; ``href`` is the page of what it is about, if there is one."""

    row: WebhookDelivery
    name: str
    about: str
    href: str
    result: str
    tries: tuple[ShownTry, ...]


def shown(row: WebhookDelivery) -> ShownDelivery:
    about, href = _about(row)
    result = outcome(row.fault, row.status) if row.tries else ""
    return ShownDelivery(row, kind_name(row.kind), about, href, result, tuple(_tried(each) for each in row.tries))


def _tried(each: Mapping[str, Any]) -> ShownTry:
    words = outcome(each["fault"], each["status"])
    return ShownTry(datetime.fromisoformat(each["at"]), words, each["seconds"], not each["fault"])


def _about(row: WebhookDelivery) -> tuple[str, str]:
    if row.kind in (announcing.RUN_FINISHED, announcing.RUN_FELL_BACK):
        return row.subject[:4], reverse("run", args=[row.subject])
    if row.kind == announcing.INBOX_WAITING and row.owner:
        return str(row.owner), reverse("inbox", args=[row.owner.pk])
    if row.kind == announcing.ERASURE_FINISHED:
        return row.subject, reverse("erasure", args=[row.subject])
    if row.kind == announcing.GOLDEN_DROPPED:
        return row.subject, reverse("evaluation", args=[row.subject])
    return "", ""
