"""The list of webhooks, and one of them with the log of its messages."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables

from memoryapp.engine.beside import table_beside
from memoryapp.models import GoldenNight, Role, Webhook, WebhookDelivery
from memoryapp.platform.webhooks import announcing, receivers, sending
from rerankui.frame.access import open_to
from rerankui.frame.pages import page_of, show

# What kinds, faults and reasons are called; the file beside this module has the words.
TABLE = table_beside(__file__)
_GOLDEN = (announcing.GOLDEN_DROPPED, announcing.GOLDEN_RECOVERED)


def _kind_name(kind: str) -> str:
    return _(TABLE["kinds"][kind]["name"] if kind in TABLE["kinds"] else TABLE["test"])


def outcome(fault: str, status: int | None) -> str:
    return _(TABLE["faults"].get(fault or "status", TABLE["faults"]["broken"])) % {"status": status}


def shown(row: WebhookDelivery, nightly_of: Mapping[str, int]) -> dict[str, Any]:
    """A message as the log shows it; ``href`` is the page of what it is about, if there is one. ``nightly_of`` has the
    number of the nightly run of each night."""
    kind = TABLE["kinds"].get(row.kind, {"by": ["nobody"]})
    places = {"subject": row.subject, "owner": row.owner_id, "nightly": nightly_of.get(row.subject)}
    address = [places.get(name) for name in kind["by"]]
    has_page = None not in address
    about = {"inbox": str(row.owner), "run": row.subject[:4]}.get(kind.get("route", ""), row.subject)
    tries = [
        {**each, "at": datetime.fromisoformat(each["at"]), "words": outcome(each["fault"], each["status"])}
        for each in row.tries
    ]
    return {
        **{"row": row, "name": _kind_name(row.kind), "about": about if has_page else "", "tries": tries},
        "href": reverse(kind["route"], args=address) if has_page else "",
        "result": outcome(row.fault, row.status) if row.tries else "",
    }


PAGE_SIZE = 30
State = WebhookDelivery.State


@open_to(Role.ADMIN)
def webhook_list(request: HttpRequest) -> HttpResponse:
    rows = list(Webhook.objects.all()[: receivers.MOST_WEBHOOKS])
    strips = sending.strips(rows)
    return render(request, "pages/webhooks/webhooks.html", {"listed": [_listed(row, strips[row.pk]) for row in rows]})


def _listed(row: Webhook, strip: list[Any]) -> dict[str, Any]:
    """A webhook as the list shows it: ``strip`` are the states of its latest messages, ``last_at`` the last one's."""
    kinds = tuple(_kind_name(kind) for kind in announcing.KINDS if kind in row.kinds)
    why_off, last_at = row.off_reason and _(TABLE["off"][row.off_reason]), strip[-1].at if strip else None
    return {"row": row, "kinds": kinds, "strip": strip, "why_off": why_off, "last_at": last_at}


@open_to(Role.ADMIN)
def webhook(request: HttpRequest, pk: int) -> HttpResponse:
    """The log, newest first; ``state`` in the address shows the messages of one state. While something is under way
    the page asks for its log again."""
    row = get_object_or_404(Webhook, pk=pk)
    state = request.GET.get("state", "")
    rows = WebhookDelivery.objects.filter(webhook=row).select_related("owner")
    if state in State.values:
        rows = rows.filter(state=state)
    page = page_of(request, rows, ("-at", "-id"), PAGE_SIZE)
    nights = GoldenNight.objects.filter(pk__in=[each.subject for each in page if each.kind in _GOLDEN])
    nightly_of = {str(night): nightly for night, nightly in nights.values_list("pk", "nightly")}
    counts = sending.counts(row)
    soon = timezone.now() + timedelta(seconds=20)
    context = {
        "webhook": row,
        "listed": _listed(row, sending.strips([row])[row.pk]),
        "page": page,
        "deliveries": [shown(each, nightly_of) for each in page],
        "state": state if state in State.values else "",
        "states": [(value, label, counts.get(value, 0)) for value, label in State.choices],
        "total": sum(counts.values()),
        "failed": counts.get(State.FAILED.value, 0),
        "is_at_work": row.state == Webhook.State.ON
        and any(each.state == State.WAITING and each.next_at <= soon for each in page),
    }
    return show(request, "pages/webhooks/webhook.html", "partials/webhooks/log.html", context)


@open_to(post=Role.ADMIN)
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
    count = sending.resend(rows, row)
    words = ngettext("%(n)d message is sent again.", "%(n)d messages are sent again.", count)
    messages.success(request, words % {"n": count})


# The form of a webhook: its name, its address, and what it is for.


class WebhookForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        widget=forms.TextInput(attrs={"class": "field", "autocomplete": "off"}),
        error_messages={
            "required": gettext_lazy("Name who receives it."),
            "max_length": gettext_lazy("A name has at most 100 characters."),
        },
    )
    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=receivers.LONGEST,
        widget=forms.URLInput(
            attrs={"class": "field mono", "autocomplete": "off", "placeholder": "https://example.com/hook"}
        ),
        error_messages={"required": gettext_lazy("Type an address such as https://example.com/hook.")},
    )
    kinds = forms.MultipleChoiceField(
        label=gettext_lazy("It gets"),
        choices=[(kind, gettext_lazy(TABLE["kinds"][kind]["name"])) for kind in announcing.KINDS],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Choose at least one event.")},
    )

    def clean_address(self) -> str:
        try:
            return receivers.checked(self.cleaned_data["address"])
        except receivers.AddressError as error:
            raise forms.ValidationError(str(error)) from None

    @property
    def boxes(self) -> list[tuple[Any, str]]:
        return [(box, _(TABLE["kinds"][box.data["value"]]["when"])) for box in self["kinds"]]


# A webhook made, changed, given a new secret, and removed.
#
# A secret stands in one response only, the one to the form that made it. Every form carries the nonce of the one
# secret that it can make: the same form sent again makes nothing and shows nothing.

_nonces = Signer(salt="webhook-nonce")


@never_cache
@sensitive_variables("secret", "context")
@open_to(Role.ADMIN, post=Role.ADMIN)
def webhook_make(request: HttpRequest) -> HttpResponse:
    """The form; a post makes the webhook and answers with the one page that shows its secret."""
    is_sent = request.method == "POST"
    form = WebhookForm(request.POST if is_sent else None)
    nonce = _nonce_in(request)
    if form.is_valid() and nonce:
        sent = form.cleaned_data
        try:
            row, secret = receivers.make(
                sent["name"], sent["address"], sent["kinds"], nonce=nonce, by=cast(User, request.user)
            )
        except receivers.WebhookError as error:
            form.add_error(None, str(error))
        except receivers.WebhookMadeAlready:
            return _shown_before(request, "webhooks")
        else:
            return render(request, "pages/webhooks/webhook_secret.html", {"webhook": row, "secret": secret}, status=201)
    context = {"form": form, "nonce": _new_nonce()}
    return render(request, "pages/webhooks/webhook_form.html", context, status=422 if is_sent else 200)


@open_to(Role.ADMIN, post=Role.ADMIN)
def webhook_edit(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Webhook, pk=pk)
    is_sent = request.method == "POST"
    initial = {"name": row.name, "address": row.address, "kinds": row.kinds}
    form = WebhookForm(request.POST if is_sent else None, initial=initial)
    if form.is_valid():
        sent = form.cleaned_data
        receivers.change(row, sent["name"], sent["address"], sent["kinds"], by=cast(User, request.user))
        messages.success(request, _("The webhook was changed."))
        return redirect("webhook", pk=pk)
    context = {"form": form, "webhook": row}
    return render(request, "pages/webhooks/webhook_form.html", context, status=422 if is_sent else 200)


@never_cache
@sensitive_variables("secret", "context")
@open_to(Role.ADMIN, post=Role.ADMIN)
def webhook_secret(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks first; a post makes a new secret and answers with the one page that shows it."""
    row = get_object_or_404(Webhook, pk=pk)
    nonce = _nonce_in(request) if request.method == "POST" else ""
    if not nonce:
        context = {"webhook": row, "nonce": _new_nonce(), "is_known": receivers.is_known(row)}
        return render(request, "pages/webhooks/webhook_rotate.html", context)
    try:
        secret = receivers.rotate(row, nonce=nonce, by=cast(User, request.user))
    except receivers.WebhookMadeAlready:
        return _shown_before(request, "webhook", pk)
    context = {"webhook": row, "secret": secret, "is_new": True}
    return render(request, "pages/webhooks/webhook_secret.html", context, status=201)


@open_to(Role.ADMIN, post=Role.ADMIN)
def webhook_delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Webhook, pk=pk)
    if request.method == "POST":
        receivers.remove(row, by=cast(User, request.user))
        messages.success(request, _("“%(name)s” was removed.") % {"name": row.name})
        return redirect("webhooks")
    return render(
        request, "pages/webhooks/webhook_delete.html", {"webhook": row, "waiting": sending.waiting_count(row)}
    )


def _new_nonce() -> str:
    return _nonces.sign(receivers.new_nonce())


def _nonce_in(request: HttpRequest) -> str:
    """The nonce that the form carries; empty for a form that this page did not draw."""
    try:
        return str(_nonces.unsign(request.POST.get("nonce", "")))
    except BadSignature:
        return ""


def _shown_before(request: HttpRequest, route: str, *arguments: int) -> HttpResponse:
    messages.warning(request, _("This secret was made already, and shown then. If you lost it, make a new one."))
    return redirect(route, *arguments)
