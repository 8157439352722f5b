"""The user's own account, for every role: the password and the sessions."""

from datetime import datetime
from math import ceil
from typing import Any, cast

from axes.models import AccessAttempt, AccessFailureLog
from axes.utils import reset
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.core.exceptions import ValidationError
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from memoryapp.models import LoginSession
from memoryapp.platform.accounts import signing_in
from memoryapp.platform.accounts.signing_in import address_of
from rerankui.frame.access import operator_for
from rerankui.frame.frame import DENSITIES, THEMES
from rerankui.frame.toasts import next_address

MOST_SESSIONS = 50
EVERYWHERE = "everywhere"


@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """The user's sessions; a post ends one of them, or all."""
    signing_in.note(request)
    user = cast(User, request.user)
    if request.method == "POST":
        named = request.POST.get("end", "")
        sessions = signing_in.of_user(user)
        chosen = [row for row in sessions if named in (EVERYWHERE, signing_in.digest_of(row))]
        ends_this_one = any(_is_this_one(request, row) for row in chosen)
        LoginSession.objects.filter(user=user, pk__in=[row.pk for row in chosen]).delete()
        if ends_this_one:
            logout(request)
            return redirect("login")
        messages.success(request, _("Signed out there.") if chosen else _("That session had ended already."))
        return redirect("account")
    rows = signing_in.of_user(user)[:MOST_SESSIONS]
    # The digest is shown in place of the key.
    listed = [{"session": s, "name": signing_in.digest_of(s), "is_this_one": _is_this_one(request, s)} for s in rows]
    return render(request, "pages/account/account.html", {"sessions": listed, "everywhere": EVERYWHERE})


def _is_this_one(request: HttpRequest, row: LoginSession) -> bool:
    return row.session_key == request.session.session_key


class OwnPasswordForm(PasswordChangeForm):
    """Tries the old password as signing in does, so that it can be guessed no more often."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request = request
        for field in self.fields.values():
            field.widget.attrs["class"] = "field"

    def clean_old_password(self) -> str:
        old = str(self.cleaned_data["old_password"])
        if authenticate(self._request, username=self.user.get_username(), password=old) != self.user:
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return old


class OwnPassword(PasswordChangeView):
    """Asks for the old password, keeps this session and ends all others."""

    template_name = "pages/account/password.html"
    form_class = OwnPasswordForm
    success_url = reverse_lazy("account")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}

    def form_valid(self, form: Any) -> HttpResponse:
        answer = super().form_valid(form)
        reset(ip=address_of(self.request), username=form.user.get_username())
        others = LoginSession.objects.filter(user=form.user).exclude(pk=self.request.session.session_key)
        others.delete()
        messages.success(self.request, _("Your password is changed. Everywhere else you are signed out."))
        return answer


password = OwnPassword.as_view()


# Signing in and out, and the two choices that need no account: language and theme.

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
sign_out = LogoutView.as_view()
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


# A browser and its system in two words, out of what it says of itself.

# The first that is named wins: most browsers also name those they descend from.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("YaBrowser", "Yandex"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"),
    ("CriOS", "Chrome"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
LONGEST = 60


def device_name(user_agent: str) -> str:
    """``Firefox on Linux``; the beginning of what it says where it is no browser that is known."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    if browser and system:
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system or user_agent[:LONGEST]
