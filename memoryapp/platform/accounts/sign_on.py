"""What django-allauth asks this program: which account stands behind a login at a provider of OpenID Connect, and what
its claims allow.

The role and, with ``OIDC_MEMORIES_CLAIM``, the memories follow the claims at each login. An account is found by the
provider and its number of the person alone, never by an address or a name, so nobody gets another's account by calling
himself so. No claim makes a superuser. allauth loads the module by its name."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from memoryapp.models import ChatUser, LoginSession, Operator, Role
from memoryapp.platform.accounts import operators
from memoryapp.platform.accounts.operators import OperatorRefused
from memoryapp.platform.accounts.signing_in import address_of

MOST_CLAIMED = 1_000


class SignedOn(ModelBackend):
    """Belongs to the sessions that allauth begins. It checks no password."""

    def authenticate(self, *arguments: Any, **named: Any) -> None:
        return None


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]
    """Nobody signs up, and no mail is sent."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        return address_of(request) or "unknown"

    def login(self, request: HttpRequest, user: Any) -> None:
        user.backend = f"{SignedOn.__module__}.{SignedOn.__name__}"
        super().login(request, user)

    def add_message(self, request: HttpRequest, level: int, template: str = "", *more: Any, **named: Any) -> None:
        if template != "account/messages/logged_in.txt":
            super().add_message(request, level, template, *more, **named)

    def send_notification_mail(self, *arguments: Any, **named: Any) -> None:
        pass


class Claims(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Makes and updates the account of who comes from the provider."""

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Leaves the login with an account that may sign in. Sends everybody else back to the login page."""
        if sociallogin.state.get("process") != "login":
            _refuse(request, _("An account of the provider cannot be joined with another account."))
        known = sociallogin.user if sociallogin.account.pk else None
        try:
            with transaction.atomic():
                claims = _claims(sociallogin.account.extra_data)
                user = _updated(known, claims) if known else _made(claims)
                if not known:
                    sociallogin.user = user
                    sociallogin.save(request, connect=True)
        except OperatorRefused as refused:
            if known:
                LoginSession.objects.filter(user=known).delete()
            _refuse(request, str(refused))

    def on_authentication_error(self, request: HttpRequest, *arguments: Any, **named: Any) -> None:
        sentence = _("%(provider)s did not answer as it should, or the login there was cancelled. Try again.")
        _refuse(request, sentence % {"provider": settings.OIDC_NAME})

    def send_notification_mail(self, *arguments: Any, **named: Any) -> None:
        pass


def _refuse(request: HttpRequest, sentence: str) -> NoReturn:
    messages.error(request, sentence)
    raise ImmediateHttpResponse(redirect("login"))


def _claims(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the provider says of the person in both places. Raises OperatorRefused if they mean two people."""
    said = [each for each in (data.get("userinfo"), data.get("id_token")) if each]
    if not said or not all(isinstance(each, dict) and each.get("sub") == said[0].get("sub") for each in said):
        raise OperatorRefused(_("The provider does not say who you are."))
    return {name: value for each in said for name, value in each.items()}


def _claimed(claims: Mapping[str, Any], name: str) -> list[str]:
    """Returns the texts of a claim, which is a text or a list of them; dots lead into objects."""
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    values: Iterable[Any] = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)][:MOST_CLAIMED]


def _role(claims: Mapping[str, Any]) -> Role:
    """Returns the highest role that the claims map to. Raises OperatorRefused without one."""
    mapped = {settings.OIDC_ROLES.get(group) for group in _claimed(claims, settings.OIDC_ROLE_CLAIM)}
    roles = [role for role in Role if role.value in mapped]
    if not roles:
        sentence = _("%(provider)s knows you, but gives you no role here. Ask whoever manages the groups there.")
        raise OperatorRefused(sentence % {"provider": settings.OIDC_NAME})
    return roles[-1]


def _memories(claims: Mapping[str, Any], otherwise: list[ChatUser]) -> list[ChatUser]:
    if not settings.OIDC_MEMORIES_CLAIM:
        return otherwise
    return list(ChatUser.objects.filter(name__in=_claimed(claims, settings.OIDC_MEMORIES_CLAIM)))


def _made(claims: Mapping[str, Any]) -> User:
    role = _role(claims)
    words = [claims.get(name) for name in ("preferred_username", "email", "name")]
    name = Accounts().generate_unique_username([word for word in words if isinstance(word, str)] or ["operator"])
    return operators.make(name, None, role, _memories(claims, []), by=None).user


def _updated(user: User, claims: Mapping[str, Any]) -> User:
    operator = Operator.objects.filter(user=user).first()
    if operator is None or not user.is_active:
        raise OperatorRefused(_("Your account here is closed. An admin can open it again."))
    owners = _memories(claims, list(ChatUser.objects.filter(access__operator=operator)))
    operators.change(operator, role=_role(claims), owners=owners, is_active=True, by=user)
    return user
