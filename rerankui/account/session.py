"""Signing in and out, and the two choices that need no account: language and theme."""

from __future__ import annotations

from datetime import datetime
from math import ceil
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST
from django.views.i18n import set_language

from memoryapp.accounts.client_address import address_of
from rerankui.access import operator_for
from rerankui.addresses import next_address
from rerankui.frame import DENSITIES, THEMES

YEAR_SECONDS = 365 * 24 * 3600


class SignInForm(AuthenticationForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["class"] = "field"


class SignInView(LoginView):
    template_name = "pages/account/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        before = user.last_login
        answer = super().form_valid(form)
        _warn_of_attempts(self.request, before)
        return answer


def _warn_of_attempts(request: HttpRequest, since: datetime | None) -> None:
    """Warn a user who may see everyone of the accounts that were locked since that user signed in last."""
    operator = operator_for(request.user)
    if operator is None or not operator.sees_everyone:
        return
    tried = AccessFailureLog.objects.filter(locked_out=True)
    count = (tried.filter(attempt_time__gt=since) if since else tried).values("username").distinct().count()
    if count:
        sentence = ngettext(
            "Since you were here last, %(count)s account was tried with wrong passwords until it had to wait."
            " Administration lists it under access failures.",
            "Since you were here last, %(count)s accounts were tried with wrong passwords until they had to wait."
            " Administration lists them under access failures.",
            count,
        )
        messages.warning(request, sentence % {"count": count})


def locked_out(request: HttpRequest, response: HttpResponse, credentials: dict[str, str]) -> HttpResponse:
    """The answer after too many wrong passwords: how long to wait. Only signing in is refused."""
    last = AccessAttempt.objects.filter(ip_address=address_of(request)).aggregate(at=Max("attempt_time"))["at"]
    ends = (last or timezone.now()) + settings.AXES_COOLOFF_TIME
    seconds = max(1, ceil((ends - timezone.now()).total_seconds()))
    answer = render(request, "pages/account/locked_out.html", {"minutes": ceil(seconds / 60)}, status=429)
    answer["Retry-After"] = str(seconds)
    return answer


login = SignInView.as_view()
logout = LogoutView.as_view()
language = login_not_required(set_language)


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme or the density in a cookie, so that the server draws the page in it from the first byte."""
    answer = HttpResponseRedirect(next_address(request) or "/")
    for name, choices in (("theme", THEMES), ("density", DENSITIES)):
        chosen = request.POST.get(name, "")
        if chosen in choices:
            answer.set_cookie(name, chosen, max_age=YEAR_SECONDS, samesite="Lax", secure=request.is_secure())
    return answer
