"""The list of webhooks, and one of them with the log of its messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from memoryapp.models import Role, Webhook, WebhookDelivery
from memoryapp.outgoing.webhooks import log, receivers
from rerankui.access import requires
from rerankui.pages import page_of, show
from rerankui.webhooks.words import KINDS, OFF, kind_name, shown

PAGE_SIZE = 30
State = WebhookDelivery.State


@dataclass(frozen=True, slots=True)
class ListedWebhook:
    """A webhook as the list shows it: ``strip`` are the states of its latest messages, ``last_at`` the last one's."""

    row: Webhook
    kinds: tuple[str, ...]
    strip: list[Any]
    why_off: str

    @property
    def last_at(self) -> datetime | None:
        return self.strip[-1].at if self.strip else None


@require_safe
@requires(Role.ADMIN)
def webhook_list(request: HttpRequest) -> HttpResponse:
    rows = list(Webhook.objects.all()[: receivers.MOST_WEBHOOKS])
    strips = log.strips(rows)
    return render(request, "pages/webhooks/webhooks.html", {"listed": [_listed(row, strips[row.pk]) for row in rows]})


def _listed(row: Webhook, strip: list[Any]) -> ListedWebhook:
    kinds = tuple(kind_name(kind) for kind in KINDS if kind in row.kinds)
    return ListedWebhook(row, kinds, strip, str(OFF.get(row.off_reason, "")))


@require_safe
@requires(Role.ADMIN)
def webhook(request: HttpRequest, pk: int) -> HttpResponse:
    """The log, newest first; ``state`` in the address shows the messages of one state. While something is under way
    the page asks for its log again."""
    row = get_object_or_404(Webhook, pk=pk)
    state = request.GET.get("state", "")
    rows = WebhookDelivery.objects.filter(webhook=row).select_related("owner")
    if state in State.values:
        rows = rows.filter(state=state)
    page = page_of(request, rows, ("-at", "-id"), PAGE_SIZE)
    counts = log.counts(row)
    soon = timezone.now() + timedelta(seconds=20)
    context = {
        "webhook": row,
        "listed": _listed(row, log.strips([row])[row.pk]),
        "page": page,
        "deliveries": [shown(each) for each in page],
        "state": state if state in State.values else "",
        "states": [(value, label, counts.get(value, 0)) for value, label in State.choices],
        "total": sum(counts.values()),
        "failed": counts.get(State.FAILED.value, 0),
        "is_at_work": row.state == Webhook.State.ON
        and any(each.state == State.WAITING and each.next_at <= soon for each in page),
    }
    return show(request, "pages/webhooks/webhook.html", "partials/webhooks/log.html", context)


@require_POST
@requires(Role.ADMIN)
def webhook_act(request: HttpRequest, pk: int) -> HttpResponse:
    """Sends a test, pauses, resumes, sends one message or all failed ones again: ``do`` says which."""
    row, by = get_object_or_404(Webhook, pk=pk), cast(User, request.user)
    do = request.POST.get("do", "")
    try:
        if do == "test":
            receivers.test(row)
            if row.state != Webhook.State.ON:
                messages.warning(request, _("The test message waits: the webhook is not on."))
        elif do == "pause":
            receivers.pause(row, by=by)
        elif do == "resume":
            receivers.resume(row, by=by)
        elif do == "resend":
            _resend(request, row)
    except receivers.WebhookError as error:
        messages.error(request, str(error))
    return redirect("webhook", pk=pk)


def _resend(request: HttpRequest, row: Webhook) -> None:
    """One message by its number, or without a number all that failed."""
    number = request.POST.get("delivery", "")
    rows = WebhookDelivery.objects.filter(state=State.FAILED)
    if number:
        rows = WebhookDelivery.objects.filter(pk=int(number) if number.isdecimal() and len(number) < 19 else 0)
    count = log.resend(rows, row)
    words = ngettext("%(n)d message is sent again.", "%(n)d messages are sent again.", count)
    messages.success(request, words % {"n": count})
