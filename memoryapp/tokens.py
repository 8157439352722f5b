"""API tokens: made once, shown once, kept as a digest.

A token is 32 random bytes, so its SHA-256 is as good a key as itself: it is looked up by that, and what is in
the database opens nothing. Checking costs the same for every text, whether there is such a token or not.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memoryapp.models import ApiToken, ChatUser

BEGINNING = "mnemo_"
SHOWN = 12
USED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a checked token opens: the memories of these chat users, or all with ``everyone``."""

    token: ApiToken
    owners: frozenset[int]

    def may(self, scope: ApiToken.Scope) -> bool:
        return scope in self.token.scopes

    @property
    def opens_all(self) -> bool:
        return self.may(ApiToken.Scope.EVERYONE)

    def seen(self) -> QuerySet[ChatUser]:
        """The chat users whose memories this token opens."""
        everyone = ChatUser.objects.all()
        return everyone if self.opens_all else everyone.filter(pk__in=self.owners)


@transaction.atomic
def make(name: str, scopes: Iterable[ApiToken.Scope], owners: Sequence[ChatUser] = ()) -> tuple[ApiToken, str]:
    """A new token and its text, which is told nowhere else. Without ``owners`` it opens every memory."""
    text = BEGINNING + secrets.token_urlsafe(32)
    wanted = {*scopes} if owners else {*scopes, ApiToken.Scope.EVERYONE}
    kept = [scope.value for scope in ApiToken.Scope if scope in wanted]
    token = ApiToken.objects.create(name=name, prefix=text[:SHOWN], digest=digest(text), scopes=kept)
    token.owners.set(owners)
    return token, text


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def check(text: str) -> Grant | None:
    """What the token of this text opens; None for one that there is not, or that was revoked."""
    wanted = digest(text)
    token = ApiToken.objects.prefetch_related("owners").filter(digest=wanted).first()
    if token is None or token.revoked_at is not None or not hmac.compare_digest(token.digest, wanted):
        return None
    _note_use(token)
    return Grant(token, frozenset(owner.pk for owner in token.owners.all()))


def _note_use(token: ApiToken) -> None:
    """At most one write a minute, however busy the token is."""
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - USED_EVERY)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


def revoke(tokens: QuerySet[ApiToken]) -> int:
    """From now on these open nothing; how many did until now."""
    return tokens.filter(revoked_at__isnull=True).update(revoked_at=timezone.now())
