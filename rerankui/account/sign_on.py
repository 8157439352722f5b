"""The addresses of signing in by others' means, which the settings open, and who is sent to get a second factor."""

import logging
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import include, path
from django.utils.deprecation import MiddlewareMixin
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.views.generic import RedirectView

from memoryapp.platform.accounts import signing_in
from rerankui.account import account

logger = logging.getLogger(__name__)
# Pages that allauth goes to by its own names.
_ITS_NAMES = [
    path("login/", account.login, name="account_login"),
    path("login/", account.login, name="account_inactive"),
    path("login/", account.login, name="socialaccount_login_cancelled"),
    path("logout/", account.sign_out, name="account_logout"),
]


def addresses() -> list[Any]:
    """Returns the addresses that are open; they come before those of the administration, whose own login asks for no
    second factor."""
    opened: list[Any] = []
    if settings.SIGN_ON:
        opened += _ITS_NAMES
    if settings.OIDC_ISSUER:
        views = import_module("allauth.socialaccount.providers.openid_connect.views")
        at = "account/oidc/<str:provider_id>/login/"
        opened.append(path(at, _answering(views.login), name="openid_connect_login"))
        opened.append(path(f"{at}callback/", _answering(views.callback), name="openid_connect_callback"))
    if settings.SECOND_FACTOR:
        confirm = import_string("allauth.account.views.reauthenticate")
        opened.append(path("account/confirm/", confirm, name="account_reauthenticate"))
        opened.append(path("account/factors/", include("allauth.mfa.urls")))
    if settings.SECOND_FACTOR or not settings.PASSWORD_LOGIN:
        to_login = login_not_required(RedirectView.as_view(pattern_name="login", query_string=True))
        opened.append(path("admin/login/", to_login))
    return opened


def _answering(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The view, which ends with a sentence where the provider is down or answers what nobody can read."""

    @login_not_required
    @wraps(view)
    def answering(request: HttpRequest, provider_id: str) -> HttpResponse:
        try:
            return view(request, provider_id)
        except (OSError, KeyError, TypeError, ValueError) as error:
            # What requests raises is an OSError.
            logger.warning("the provider of OpenID Connect gave no usable answer: %s", type(error).__name__)
            sentence = _("%(provider)s does not answer as it should. Try again, or sign in with a password.")
            messages.error(request, sentence % {"provider": settings.OIDC_NAME})
            return redirect("login")

    return answering


class SecondFactorFirst(MiddlewareMixin):
    """Sends who needs a second factor and has none to the page where one is got, from every page that asks who is
    there but those of the own account."""

    def process_view(self, request: HttpRequest, view: Any, *_arguments: Any) -> HttpResponse | None:
        route = request.resolver_match.route if request.resolver_match else ""
        if not getattr(view, "login_required", True) or route.startswith(("account/", "logout/")):
            return None
        if not isinstance(request.user, User) or not signing_in.lacks_second_factor(request.user):
            return None
        messages.warning(request, _("Your role needs a second factor. Choose one here; until then nothing else opens."))
        return redirect("mfa_index")
