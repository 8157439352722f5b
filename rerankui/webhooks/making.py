"""A webhook made, changed, given a new secret, and removed.

A secret stands in one response only, the one to the form that made it. Every form carries the nonce of the one secret
that it can make: the same form sent again makes nothing and shows nothing.
"""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from memoryapp.models import Role, Webhook
from memoryapp.outgoing.webhooks import log, receivers, signing
from rerankui.access import requires
from rerankui.webhooks.forms import WebhookForm

READS = ("GET", "HEAD", "POST")
_nonces = Signer(salt="webhook-nonce")


@never_cache
@sensitive_variables("secret", "context")
@require_http_methods(READS)
@requires(Role.ADMIN)
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


@require_http_methods(READS)
@requires(Role.ADMIN)
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
@require_http_methods(READS)
@requires(Role.ADMIN)
def webhook_secret(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks first; a post makes a new secret and answers with the one page that shows it."""
    row = get_object_or_404(Webhook, pk=pk)
    nonce = _nonce_in(request) if request.method == "POST" else ""
    if not nonce:
        context = {"webhook": row, "nonce": _new_nonce(), "is_known": signing.is_known(row)}
        return render(request, "pages/webhooks/webhook_rotate.html", context)
    try:
        secret = receivers.rotate(row, nonce=nonce, by=cast(User, request.user))
    except receivers.WebhookMadeAlready:
        return _shown_before(request, "webhook", pk)
    context = {"webhook": row, "secret": secret, "is_new": True}
    return render(request, "pages/webhooks/webhook_secret.html", context, status=201)


@require_http_methods(READS)
@requires(Role.ADMIN)
def webhook_delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Webhook, pk=pk)
    if request.method == "POST":
        receivers.remove(row, by=cast(User, request.user))
        messages.success(request, _("“%(name)s” was removed.") % {"name": row.name})
        return redirect("webhooks")
    return render(request, "pages/webhooks/webhook_delete.html", {"webhook": row, "waiting": log.waiting_count(row)})


def _new_nonce() -> str:
    return _nonces.sign(signing.new_nonce())


def _nonce_in(request: HttpRequest) -> str:
    """The nonce that the form carries; empty for a form that this page did not draw."""
    try:
        return str(_nonces.unsign(request.POST.get("nonce", "")))
    except BadSignature:
        return ""


def _shown_before(request: HttpRequest, route: str, *arguments: int) -> HttpResponse:
    messages.warning(request, _("This secret was made already, and shown then. If you lost it, make a new one."))
    return redirect(route, *arguments)
