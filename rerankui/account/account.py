"""The user's own account, for every role: the password and the sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from axes.utils import reset
from django.contrib import messages
from django.contrib.auth import authenticate, logout
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from memoryapp.accounts import login_sessions
from memoryapp.accounts.client_address import address_of
from memoryapp.models import LoginSession

MOST_SESSIONS = 50
EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A login session as the list shows it; ``name`` is shown in place of its key."""

    session: LoginSession
    name: str
    is_this_one: bool


@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """The user's sessions; a post ends one of them, or all."""
    login_sessions.note(request)
    user = cast(User, request.user)
    if request.method == "POST":
        return _end_sessions(request, user, request.POST.get("end", ""))
    rows = login_sessions.of_user(user)[:MOST_SESSIONS]
    listed = [SignedIn(row, login_sessions.digest_of(row), _is_this_one(request, row)) for row in rows]
    return render(request, "pages/account/account.html", {"sessions": listed, "everywhere": EVERYWHERE})


def _end_sessions(request: HttpRequest, user: User, named: str) -> HttpResponse:
    sessions = login_sessions.of_user(user)
    chosen = [row for row in sessions if named in (EVERYWHERE, login_sessions.digest_of(row))]
    ends_this_one = any(_is_this_one(request, row) for row in chosen)
    LoginSession.objects.filter(user=user, pk__in=[row.pk for row in chosen]).delete()
    if ends_this_one:
        logout(request)
        return redirect("login")
    messages.success(request, _("Signed out there.") if chosen else _("That session had ended already."))
    return redirect("account")


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
