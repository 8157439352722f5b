"""API tokens: made once, shown once, stored as a digest. A token is 32 random bytes and is looked up by its SHA-256, so
the database holds nothing that opens a memory. A check costs the same for every text, whether such a token exists or
not. What an admin does to tokens on a page is recorded in the log of Django's administration."""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import IntegrityError, transaction
from django.db.models import Count, Prefetch, Q, QuerySet
from django.utils import timezone

from memoryapp.engine.beside import table_beside
from memoryapp.models import ApiToken, ChatUser
from memoryapp.platform.sights import check_limit
from memoryapp.platform.statements import fetched

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
    return int(fetched("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [ApiToken._meta.db_table])[0][0])


@transaction.atomic
def make(
    name: str,
    scopes: Iterable[ApiToken.Scope],
    owners: Sequence[ChatUser] = (),
    *,
    number: int | None = None,
    by: User | None = None,
    when_unsure: str = "",
    daily_cap_usd: float | None = None,
    projects: Sequence[str] | None = None,
) -> tuple[ApiToken, str]:
    """Makes a token; returns it and its text, which is shown nowhere else. Without ``owners`` it opens every memory.
    ``number`` comes from ``reserve``. Raises MadeAlready if a token has it."""
    check_limit(projects)
    text = BEGINNING + secrets.token_urlsafe(32)
    granted = {*scopes} if owners else {*scopes, ApiToken.Scope.EVERYONE}
    stored = [scope.value for scope in ApiToken.Scope if scope in granted]
    shown = {"name": name, "prefix": text[:SHOWN], "when_unsure": when_unsure}
    bounds = {"daily_cap_usd": daily_cap_usd, "projects": projects}
    token = ApiToken(pk=number, digest=digest(text), scopes=stored, **shown, **bounds)
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError as error:
        raise MadeAlready from error
    token.owners.set(owners)
    if by:
        LogEntry.objects.log_actions(by.pk, [token], ADDITION, _MADE)
    return token, text


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def check(text: str) -> Grant | None:
    """Returns what the token with this text opens; None if there is no such token or it was revoked."""
    wanted = digest(text)
    token = ApiToken.objects.prefetch_related("owners").filter(digest=wanted).first()
    if token is None or token.revoked_at is not None or not hmac.compare_digest(token.digest, wanted):
        return None
    return used(token)


def used(token: ApiToken) -> Grant:
    """Returns what the token opens. The time of its use is stored at most once a minute."""
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - USED_EVERY)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    return Grant(token, frozenset(owner.pk for owner in token.owners.all()))


def captured(token: ApiToken) -> None:
    """Records that messages came with the token, at most once a minute."""
    now = timezone.now()
    if token.captured_at is None or token.captured_at < now - USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(captured_at=now)


@transaction.atomic
def revoke(tokens: QuerySet[ApiToken], *, by: User | None = None) -> int:
    """Revokes these tokens; returns how many were not revoked before."""
    ended = list(tokens.filter(revoked_at__isnull=True).order_by("pk").select_for_update())
    ApiToken.objects.filter(pk__in=[token.pk for token in ended]).update(revoked_at=timezone.now())
    if by and ended:
        LogEntry.objects.log_actions(by.pk, ended, CHANGE, _REVOKED)
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


# How many requests a token may send in a time, counted by all processes together.
#
# The count is in the token's row. A process does not write it for each request: it takes a part of what is allowed at
# once and counts that down in memory. Other processes cannot use what it does not need of its part, so a token may be
# refused a few requests early, by at most one part for each other process; never late.

# A process takes this part of the limit at once. A limit that is lower is counted request by request.
PARTS = 50

# A clock that is behind another machine's counts in the later time.
_SQL = table_beside(__file__)
TAKE: str = _SQL["take"]


@dataclass(slots=True)
class _Left:
    """How many requests the process may still admit of the part that it took in the time from ``start``."""

    start: int
    count: int
    is_spent: bool = False


@dataclass(slots=True)
class Allowances:
    """What one process may admit, by token."""

    _of: dict[int, _Left] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, token: int) -> float:
        """Counts a request; returns 0 if it is admitted, otherwise the seconds after which to try again."""
        most, seconds = settings.API_RATE
        now = time.time()
        start = int(now // seconds * seconds)
        if self._admits(token, start, most):
            return 0.0
        return float(max(1.0, seconds - now % seconds))

    def _admits(self, token: int, start: int, most: int) -> bool:
        with self._lock:
            left = self._of.get(token)
            if left is None or left.start != start:
                left = self._of[token] = _Left(start, 0)
            if not left.count and not left.is_spent:
                # The next part of the limit; how many requests of it are within the limit.
                part = max(1, most // PARTS)
                rows = fetched(TAKE, {"token": token, "start": start, "part": part})
                left.count = max(0, min(part, most - (rows[0][0] - part))) if rows else 0
                left.is_spent = not left.count
            left.count -= not left.is_spent
            return not left.is_spent
