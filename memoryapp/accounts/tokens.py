"""API tokens: made once, shown once, stored as a digest.

A token is 32 random bytes and is looked up by its SHA-256, so the database holds nothing that opens a memory. A check
costs the same for every text, whether such a token exists or not. What an admin does to tokens on a page is recorded in
the log of Django's administration.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Prefetch, Q, QuerySet
from django.utils import timezone

from memoryapp.models import ApiToken, ChatUser

BEGINNING = "mnemo_"
SHOWN = 12
USED_EVERY = timedelta(minutes=1)
FIRST_OWNERS = 4
# In the wording of the administration's log.
_MADE = '[{"added": {}}]'
_REVOKED = '[{"changed": {"fields": ["revoked"]}}]'


class MadeAlready(Exception):
    """A token with this number exists, because the request to make it was sent twice."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a checked token opens: the memories of these chat users or, with the scope ``everyone``, of all."""

    token: ApiToken
    owners: frozenset[int]

    def may(self, scope: ApiToken.Scope) -> bool:
        return scope in self.token.scopes

    @property
    def opens_all(self) -> bool:
        return self.may(ApiToken.Scope.EVERYONE)

    def visible_owners(self) -> QuerySet[ChatUser]:
        """Returns the chat users whose memories this token opens."""
        everyone = ChatUser.objects.all()
        return everyone if self.opens_all else everyone.filter(pk__in=self.owners)


def reserve() -> int:
    """Returns a number for a new token. Only one token is made per number, even if the request is repeated."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [ApiToken._meta.db_table])
        return int(cursor.fetchone()[0])


@transaction.atomic
def make(
    name: str,
    scopes: Iterable[ApiToken.Scope],
    owners: Sequence[ChatUser] = (),
    *,
    number: int | None = None,
    by: User | None = None,
    when_unsure: str = "",
) -> tuple[ApiToken, str]:
    """Makes a token; returns it and its text, which is shown nowhere else. Without ``owners`` it opens every memory.

    ``number`` comes from ``reserve``. Raises MadeAlready if a token has it.
    """
    text = BEGINNING + secrets.token_urlsafe(32)
    granted = {*scopes} if owners else {*scopes, ApiToken.Scope.EVERYONE}
    stored = [scope.value for scope in ApiToken.Scope if scope in granted]
    token = _insert(
        ApiToken(
            pk=number,
            name=name,
            prefix=text[:SHOWN],
            digest=digest(text),
            scopes=stored,
            when_unsure=when_unsure,
        )
    )
    token.owners.set(owners)
    if by:
        _log(by, [token], ADDITION, _MADE)
    return token, text


def _insert(token: ApiToken) -> ApiToken:
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError as error:
        raise MadeAlready from error
    return token


def _log(by: User, tokens: Sequence[ApiToken], flag: int, words: str) -> None:
    LogEntry.objects.log_actions(by.pk, tokens, flag, words)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def check(text: str) -> Grant | None:
    """Returns what the token with this text opens; None if there is no such token or it was revoked."""
    wanted = digest(text)
    token = ApiToken.objects.prefetch_related("owners").filter(digest=wanted).first()
    if token is None or token.revoked_at is not None or not hmac.compare_digest(token.digest, wanted):
        return None
    _note_use(token)
    return Grant(token, frozenset(owner.pk for owner in token.owners.all()))


def _note_use(token: ApiToken) -> None:
    """Stores the time of use, at most once a minute."""
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - USED_EVERY)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


@transaction.atomic
def revoke(tokens: QuerySet[ApiToken], *, by: User | None = None) -> int:
    """Revokes these tokens; returns how many were not revoked before."""
    ended = list(tokens.filter(revoked_at__isnull=True).order_by("pk").select_for_update())
    ApiToken.objects.filter(pk__in=[token.pk for token in ended]).update(revoked_at=timezone.now())
    if by and ended:
        _log(by, ended, CHANGE, _REVOKED)
    return len(ended)


def listed() -> QuerySet[ApiToken]:
    """Returns tokens with their first chat users by name, ``first_owners``, and the count of all, ``owner_count``."""
    owners = ChatUser.objects.order_by("name").only("name", "display_name")[:FIRST_OWNERS]
    first = Prefetch("owners", owners, to_attr="first_owners")
    return ApiToken.objects.annotate(owner_count=Count("owners")).prefetch_related(first)


def makers(tokens: Iterable[ApiToken]) -> dict[int, str]:
    """Returns who made each token, by its id; tokens made by a command are missing."""
    return _actors(tokens, ADDITION, _MADE)


def revokers(tokens: Iterable[ApiToken]) -> dict[int, str]:
    """Returns who revoked each token, by its id."""
    return _actors(tokens, CHANGE, _REVOKED)


def _actors(tokens: Iterable[ApiToken], flag: int, words: str) -> dict[int, str]:
    kind = ContentType.objects.get_for_model(ApiToken)
    ids = [str(token.pk) for token in tokens]
    found = LogEntry.objects.filter(content_type=kind, object_id__in=ids, action_flag=flag, change_message=words)
    return {int(pk or 0): name for pk, name in found.values_list("object_id", "user__username")}
