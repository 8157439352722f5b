"""The store of login sessions, named by SESSION_ENGINE; it can list the sessions of a user.

An open socket calls ``user_of`` again from time to time, so it also ends when the session ends, the password changes or
the account is disabled.
"""

import hashlib
import time
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import SESSION_KEY, get_user, user_logged_in
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db.models import QuerySet
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from memoryapp.models import LoginSession
from memoryapp.platform.accounts.signing_in import address_of

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
