"""The store of login sessions, which SESSION_ENGINE names: who is signed in where, and ending it.

Whoever holds something open for a session (a socket) asks ``user_of`` again now and then: an ended session, a changed
password or a closed account then end it too.
"""

from __future__ import annotations

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

from memoryapp.client_address import address_of
from memoryapp.models import LoginSession

NOTED_EVERY = 300
_DEVICE_CHARS = 300


class SessionStore(DatabaseStore):
    """Keeps beside a session's data whose it is, in columns that can be listed."""

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
    """Keep from where the session is used, at most every five minutes."""
    if time.time() - request.session.get("seen", 0) >= NOTED_EVERY:
        _note_now(None, request)


@receiver(user_logged_in)
def _note_now(sender: object, request: HttpRequest, **_: Any) -> None:
    device = request.headers.get("user-agent", "")[:_DEVICE_CHARS]
    request.session.update({"seen": int(time.time()), "device": device, "address": address_of(request)})


def of_user(user: AbstractBaseUser) -> QuerySet[LoginSession]:
    """Those in force, the latest seen first."""
    return LoginSession.objects.filter(user=user.pk, expire_date__gt=timezone.now()).order_by("-seen_at")


def digest_of(session: LoginSession) -> str:
    """Names a session on a page, which must not show its key."""
    return hashlib.sha256(session.session_key.encode()).hexdigest()[:24]


def user_of(session_key: str | None) -> AbstractBaseUser | AnonymousUser:
    """Whose session this is now; nobody's once it was ended or its password was changed."""
    asking = HttpRequest()
    asking.session = SessionStore(session_key)
    return get_user(asking)
