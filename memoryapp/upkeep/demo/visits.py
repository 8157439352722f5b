"""A demo that everybody may look at, with ``DEMO_READ_ONLY``: each visitor is the *guest*, whose login session is made
for each request and never stored. Guests ask questions; their runs are in no list, and go after an hour.
"""

from datetime import timedelta
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.utils import timezone

from memoryapp.models import Access, ChatUser, Operator, Role, Run
from memoryapp.models.operator import GUEST

KEPT = timedelta(hours=1)
# All guests together; a run of the embedded models takes a tenth of a second of the processor.
MOST_A_MINUTE = 60
_NEVER = 2**40


class GuestSession(SessionBase):
    """The session of a guest: who it is, and when it was noted, so that no page notes it."""

    def __init__(self, session_key: str | None = None) -> None:
        # Without a key it would not be loaded.
        super().__init__("guest-of-the-demo")

    def load(self) -> dict[str, Any]:
        user = User.objects.filter(username=GUEST).first() or open_to_guests()
        return {
            SESSION_KEY: str(user.pk),
            BACKEND_SESSION_KEY: "memoryapp.platform.accounts.signing_in.Passwords",
            HASH_SESSION_KEY: user.get_session_auth_hash(),
            "seen": _NEVER,
        }

    def exists(self, session_key: str) -> bool:
        return False

    def create(self) -> None:
        """Nothing is stored."""

    def save(self, must_create: bool = False) -> None:
        """Nothing is stored."""

    def delete(self, session_key: str | None = None) -> None:
        """Nothing is stored."""


# As Django looks for it in SESSION_ENGINE.
SessionStore = GuestSession


@transaction.atomic
def open_to_guests() -> User:
    """The guest, who may look at every memory that there is now; nobody can sign in under this name."""
    user, _ = User.objects.get_or_create(username=GUEST, defaults={"password": "!"})
    operator, _ = Operator.objects.get_or_create(user=user, defaults={"role": Role.CURATOR})
    seen = [Access(operator=operator, owner=owner) for owner in ChatUser.objects.all()]
    Access.objects.bulk_create(seen, ignore_conflicts=True)
    return user


def is_busy() -> bool:
    """Whether guests have asked as many questions in the last minute as they may."""
    asked = Run.objects.filter(operator__username=GUEST, created_at__gt=timezone.now() - timedelta(minutes=1))
    return asked[:MOST_A_MINUTE].count() >= MOST_A_MINUTE


def clear() -> None:
    """Deletes the runs of guests that are older than an hour."""
    Run.objects.filter(operator__username=GUEST, created_at__lt=timezone.now() - KEPT).delete()
