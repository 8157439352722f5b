"""Writes entries of the audit log, where ``AUDIT_LOG`` is on.

A door says who asks (``begin``); the code that finds a memory for that request says whose it is (``saw``), before
anything of it is read or changed; ``end`` writes the entry of what concerned no single memory. An entry that cannot be
written ends a change, an export or an erasure with the database's error; anything else goes on, and the log says so.

A page asks for its parts by itself, again and again, so a person's reads of one thing within a minute count once in a
process."""

import logging
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model, user_logged_in, user_logged_out, user_login_failed
from django.db import DatabaseError, transaction
from django.dispatch import receiver
from django.http import HttpRequest

from memoryapp.models import AuditEntry, Deed, Door
from memoryapp.platform.accounts.signing_in import address_of

# Nothing of these happens without its entry.
_STRICT = (Deed.CHANGE, Deed.EXPORT, Deed.ERASE)
_ONCE_SECONDS = 60.0
_MOST_REMEMBERED = 10_000
_NUMBER = re.compile(r"\[?(?:[A-Za-z]{1,20}:)?[0-9]{1,19}\]?")
# Parts of an address that say which kind of row it is, not which row.
_BARE = ("pk", "id")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Asking:
    """A request, or a command: who asks by which door, for what; ``seen`` are the numbers of memories it saw."""

    who: str
    door: Door
    deed: Deed
    what: str
    address: str | None = None
    seen: set[int | None] = field(default_factory=set)


_asking: ContextVar[Asking | None] = ContextVar("audit_asking", default=None)
# What was read lately by whom, with the second until when it counts as the same.
_lately: dict[tuple[Any, ...], float] = {}


def begin(who: str, door: Door, deed: Deed, what: str, request: HttpRequest | None = None) -> None:
    """Says who asks from now on, in this request or command."""
    address = address_of(request) if request and settings.AUDIT_LOG else None
    _asking.set(Asking(who, door, deed, what, address) if settings.AUDIT_LOG else None)


def begin_anonymous() -> None:
    """Forgets who asked before."""
    _asking.set(None)


def saw(owner: int | None) -> None:
    """Writes that this memory is seen, once for each request. Raises DatabaseError for a change, see above."""
    asking = _asking.get()
    if asking is not None and owner not in asking.seen and not _is_again(asking, owner):
        asking.seen.add(owner)
        _write(asking, owner)


def begin_command(name: str, deed: Deed, owner: int | None) -> None:
    """Writes that somebody at the server's console uses a command on this memory. Raises as ``saw``."""
    begin("command line", Door.COMMAND, deed, name)
    saw(owner)


def is_open() -> bool:
    """Whether somebody asked, and no memory was seen yet."""
    asking = _asking.get()
    return asking is not None and not asking.seen


def end() -> None:
    """Writes a request that saw no single memory, such as a list of all."""
    if is_open():
        saw(None)


def _is_again(asking: Asking, owner: int | None) -> bool:
    if asking.door != Door.PAGE or asking.deed != Deed.READ:
        return False
    read, now = (asking.who, asking.address, owner, asking.what), time.monotonic()
    if _lately.get(read, 0.0) > now:
        asking.seen.add(owner)
        return True
    if len(_lately) >= _MOST_REMEMBERED:
        _lately.clear()
    _lately[read] = now + _ONCE_SECONDS
    return False


def _write(asking: Asking, owner: int | None) -> None:
    try:
        # A failure must not spoil a transaction in which somebody reads.
        with transaction.atomic():
            AuditEntry.objects.create(
                who=asking.who[:200],
                door=asking.door,
                deed=asking.deed,
                owner_number=owner,
                what=asking.what[:200],
                address=asking.address,
            )
    except DatabaseError as error:
        if asking.deed in _STRICT:
            raise
        logger.error("The audit log lacks an entry: %s by %s: %s", asking.deed, asking.who, error)


def named(noun: str, arguments: Mapping[str, Any]) -> str:
    """What an address is about: its noun and numbers. Names and words in it are left out."""
    parts = [noun]
    for key, value in arguments.items():
        if key != "owner_id" and _is_number(key, value, arguments):
            parts.append(str(value) if key in _BARE or key == noun else f"{key} {value}")
    return " ".join(parts)


def _is_number(key: str, value: Any, arguments: Mapping[str, Any]) -> bool:
    """Behind the name of a chat user stand ids that programs gave, which may be anything, such as a phone's number."""
    if not isinstance(value, str):
        return isinstance(value, int | UUID)
    return bool(_NUMBER.fullmatch(value)) and (":" in value or (key in _BARE and "name" not in arguments))


# Signing in, whatever page it is done on.


def _signed(request: HttpRequest | None, who: str, deed: Deed) -> None:
    if settings.AUDIT_LOG and request is not None:
        _write(Asking(who, Door.PAGE, deed, "", address_of(request)), None)


@receiver(user_logged_in)
def _in(sender: object, request: HttpRequest, user: Any, **_: Any) -> None:
    _signed(request, user.get_username(), Deed.SIGN_IN)


@receiver(user_logged_out)
def _out(sender: object, request: HttpRequest, user: Any, **_: Any) -> None:
    _signed(request, user.get_username() if user else "", Deed.SIGN_OUT)


@receiver(user_login_failed)
def _failed(sender: object, credentials: Mapping[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """A name that no account has may be a password in the wrong field, and is not stored."""
    if settings.AUDIT_LOG:
        typed = str(credentials.get("username") or "").replace("\0", "")[:150]
        known = get_user_model().objects.filter(username=typed).exists()
        _signed(request, typed if known else "", Deed.SIGN_IN_FAILED)
