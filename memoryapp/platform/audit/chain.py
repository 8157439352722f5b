"""The chain of the audit log: entries are sealed in the order of their places, checked, and removed when they are old.
A seal is ``sha256(former seal + JSON of the entry)``, the JSON without blanks and with sorted keys, so that anybody can
check an export. The first seal of a chain follows 64 zeros."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from memoryapp.engine.beside import table_beside
from memoryapp.models import AuditEntry
from memoryapp.platform.database import lane
from memoryapp.platform.statements import execute
from memoryapp.platform.webhooks.announcing import AUDIT_SEALED, MOST_AUDITED, announce

START = "0" * 64
# Entries that one sweep seals or removes at most.
MOST_AT_ONCE = 50 * MOST_AUDITED

_SQL = table_beside(__file__)
_SEAL: str = _SQL["seal"]


def seal_of(former: str, document: dict[str, Any]) -> str:
    """The seal of an entry after this one, both in hexadecimal digits."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256((former + text).encode()).hexdigest()


def sealed() -> QuerySet[AuditEntry]:
    """The sealed entries in their order."""
    return AuditEntry.objects.filter(place__isnull=False).order_by("place")


def seal_due() -> int:
    """Seals what was written, tells webhooks, and returns how many. Two processes never seal at once."""
    count = 0
    with lane("seal_audit", 1) as is_free:
        while is_free and count < MOST_AT_ONCE and (batch := _seal_batch()):
            count += batch
    return count


@transaction.atomic
def _seal_batch() -> int:
    rows = list(AuditEntry.objects.filter(seal="").order_by("id")[:MOST_AUDITED])
    if not rows:
        return 0
    last = sealed().last()
    place, former = (last.place or 0, last.seal) if last else (0, START)
    columns: list[tuple[int, int, str, str]] = []
    for row in rows:
        row.place = place = place + 1
        columns.append((row.pk, place, former, seal := seal_of(former, row.document)))
        former = seal
    execute(_SEAL, [list(column) for column in zip(*columns, strict=True)])
    announce(AUDIT_SEALED, subject=f"{rows[0].place}-{rows[-1].place}")
    return len(rows)


def prune() -> int:
    """Removes the oldest sealed entries whose ``AUDIT_DAYS`` are over; returns how many. The last one stays, because
    the next seal follows its seal."""
    if not settings.AUDIT_DAYS:
        return 0
    until = timezone.now() - timedelta(days=settings.AUDIT_DAYS)
    with transaction.atomic():
        first = list(sealed().values_list("place", "at")[: MOST_AT_ONCE + 1])[:-1]
        old = _until_younger(first, until)
        if old is None:
            return 0
        execute("SELECT set_config('memoryapp.audit_until', %s, true)", [until.isoformat()])
        rows = AuditEntry.objects.filter(place__lte=old)
        return rows._raw_delete(rows.db)


def _until_younger(first: Iterable[tuple[int | None, Any]], until: Any) -> int | None:
    """The last place before the first entry that is not old yet."""
    old = None
    for place, at in first:
        if at >= until:
            break
        old = place
    return old


def faults() -> Iterator[tuple[int, str]]:
    """The places at which the chain is broken, each with a code: ``start``, ``missing``, ``former`` or ``changed``. A
    chain whose first entries were removed by retention begins with the seal before the first that is left; without
    retention it begins at place 1."""
    before: AuditEntry | None = None
    for row in sealed().iterator(chunk_size=2_000):
        place = row.place or 0
        if before is None:
            if (place == 1) != (row.former == START) or (place != 1 and not settings.AUDIT_DAYS):
                yield place, "start"
        elif place != (before.place or 0) + 1:
            yield place, "missing"
        elif row.former != before.seal:
            yield place, "former"
        if seal_of(row.former, row.document) != row.seal:
            yield place, "changed"
        before = row


def lines(rows: Iterable[AuditEntry]) -> Iterator[str]:
    """The entries as JSON Lines, each with its seal and the one before it."""
    for row in rows:
        yield json.dumps(row.sealed_document, ensure_ascii=False) + "\n"
