"""Signing in: how often a password may be tried, how many are checked at once, and what the role admin may do. Attempts
are counted for an account at an address, so knowing a name is not enough to lock its owner out everywhere. They are
also counted for an address over all names that it tries. They are rows, because all processes count together."""

import hashlib
import ipaddress
import threading
import time
from datetime import UTC, datetime
from typing import Any

from axes.backends import AxesStandaloneBackend
from axes.handlers.database import AxesDatabaseHandler
from django.apps import apps
from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user, user_logged_in
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.core.exceptions import ValidationError
from django.db.models import QuerySet, Sum
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memoryapp.models import LoginSession, Operator, Role

# Checking a password takes a third of a second of a core; many checks at once would block the pages.
PATIENCE = 10.0
_checking = threading.Semaphore(1)


class Attempts(AxesDatabaseHandler):  # type: ignore[misc]
    """Counts failures of the account at the address, or of the address if that is nearer to its own limit."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        own, whole = (
            attempts.aggregate(count=Sum("failures_since_start"))["count"] or 0
            for attempts in self.get_user_attempts(request, credentials)
        )
        return int(max(own, whole * settings.AXES_FAILURE_LIMIT // settings.LOGIN_ATTEMPTS_OF_ADDRESS))


class Throttle(AxesStandaloneBackend):  # type: ignore[misc]
    """Refuses an account or address with too many attempts before checking a password. Commands have no limit."""

    def authenticate(self, request: HttpRequest | None, *arguments: Any, **named: Any) -> None:
        if request is not None:
            super().authenticate(request, *arguments, **named)


class Passwords(ModelBackend):
    """Checks one password at a time in each process. Raises ValidationError, for the form, if the wait is too long."""

    def authenticate(self, request: HttpRequest | None, *arguments: Any, **named: Any) -> Any:
        if not _checking.acquire(timeout=PATIENCE):
            raise ValidationError(_("Many people are signing in right now. Try again in a minute."), code="busy")
        try:
            return super().authenticate(request, *arguments, **named)
        finally:
            _checking.release()


class RoleAdmin(BaseBackend):
    """Gives the role admin every permission in the administration, without Django's own permissions."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return _is_admin(user_obj)

    def has_module_perms(self, user_obj: Any, app_label: str) -> bool:
        return _is_admin(user_obj)


def _is_admin(user: Any) -> bool:
    """Returns whether the user is an admin. Pages ask for every model, so the result is cached on the user object."""
    if not isinstance(user, User) or not user.is_active:
        return False
    if not hasattr(user, "is_admin_by_role"):
        is_admin = Operator.objects.filter(user=user, role=Role.ADMIN).exists()
        user.is_admin_by_role = is_admin  # type: ignore[attr-defined]
    return bool(user.is_admin_by_role)  # type: ignore[attr-defined]


def needs_second_factor(user: User) -> bool:
    """Returns whether this role needs a second factor; an account of a provider has its factors there."""
    if not settings.REQUIRE_SECOND_FACTOR or not user.has_usable_password():
        return False
    role = Operator.objects.filter(user=user).values_list("role", flat=True).first()
    return (Role.ADMIN.value if user.is_superuser else role) in settings.REQUIRE_SECOND_FACTOR


def lacks_second_factor(user: User) -> bool:
    """Returns whether the user needs a second factor and has none."""
    if not needs_second_factor(user):
        return False
    factors = apps.get_app_config("mfa").get_model("Authenticator")._default_manager
    return not factors.filter(user=user, type__in=("totp", "webauthn")).exists()


# The address from which a request comes. Anybody can send a header, so only the one named by a setting is trusted.


def address_of(request: HttpRequest) -> str | None:
    """Returns the address of the connection or, behind a proxy, the last one in the header CLIENT_ADDRESS_HEADER. The
    addresses before the last one come from the proxy's client, so they are not trusted."""
    header = request.headers.get(settings.CLIENT_ADDRESS_HEADER, "") if settings.CLIENT_ADDRESS_HEADER else ""
    return _address(header.rpartition(",")[2]) or _address(request.META.get("REMOTE_ADDR") or "")


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return None


NOTE_INTERVAL = 300
_DEVICE_CHARS = 300


class SessionStore(DatabaseStore):
    """Stores the user, device and address of a session in columns beside its data, so that sessions can be listed."""

    @classmethod
    def get_model_class(cls) -> type[LoginSession]:
        return LoginSession

    def create_model_instance(self, data: dict[str, Any]) -> LoginSession:
        return _described(super().create_model_instance(data), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> LoginSession:
        return _described(await super().acreate_model_instance(data), data)


def _described(row: Any, data: dict[str, Any]) -> LoginSession:
    row.user_id = data.get(SESSION_KEY)
    row.device, row.address = data.get("device", ""), data.get("address")
    row.seen_at = datetime.fromtimestamp(data["seen"], UTC) if "seen" in data else timezone.now()
    return row  # type: ignore[no-any-return]


def note(request: HttpRequest) -> None:
    """Stores the device and address that use the session, at most every five minutes."""
    if time.time() - request.session.get("seen", 0) >= NOTE_INTERVAL:
        _note_now(None, request)


@receiver(user_logged_in)
def _note_now(sender: object, request: HttpRequest, **_: Any) -> None:
    device = request.headers.get("user-agent", "")[:_DEVICE_CHARS]
    request.session.update({"seen": int(time.time()), "device": device, "address": address_of(request)})


def of_user(user: AbstractBaseUser) -> QuerySet[LoginSession]:
    """Returns the user's sessions that have not ended, most recently used first."""
    return LoginSession.objects.filter(user=user.pk, expire_date__gt=timezone.now()).order_by("-seen_at")


def digest_of(session: LoginSession) -> str:
    """Returns a name of the session for pages, which must not show its key."""
    return hashlib.sha256(session.session_key.encode()).hexdigest()[:24]


def user_of(session_key: str | None) -> AbstractBaseUser | AnonymousUser:
    """Returns the current user of a session; anonymous after the session ended or the password was changed."""
    request = HttpRequest()
    request.session = SessionStore(session_key)
    return get_user(request)
