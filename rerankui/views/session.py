"""Signing in and out, and the two choices that need no account: language and theme."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST
from django.views.i18n import set_language

from rerankui.frame import THEMES

YEAR_SECONDS = 365 * 24 * 3600


class SignInForm(AuthenticationForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["class"] = "field"


login = LoginView.as_view(
    template_name="pages/login.html", authentication_form=SignInForm, redirect_authenticated_user=True
)
logout = LogoutView.as_view()
language = login_not_required(set_language)


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme in a cookie, so that the server draws the page in it from the first byte."""
    chosen, back = request.POST.get("theme", ""), request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    answer = HttpResponseRedirect(back if is_ours else "/")
    if chosen in THEMES:
        answer.set_cookie("theme", chosen, max_age=YEAR_SECONDS, samesite="Lax", secure=request.is_secure())
    return answer
