"""Messages by month, for the charts that show how a memory grew."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from django.db import connection
from django.utils import timezone

from memoryapp.models import ChatUser

MOST_MONTHS = 240
# The messages of an owner's month from ``start`` on: the index ``message_counted`` finds and counts them, and no month
# is computed of every single message.
_COUNT = """
    SELECT count(*) FROM memoryapp_message WHERE owner_id = {owner} AND NOT is_withdrawn
    AND sent_at >= start AND sent_at < (start AT TIME ZONE %(zone)s + interval '1 month') AT TIME ZONE %(zone)s
"""
# From the latest month to the one before it that holds a message, and so on.
MONTHS = f"""
WITH RECURSIVE month (start) AS (
    (SELECT date_trunc('month', sent_at, %(zone)s) FROM memoryapp_message
     WHERE owner_id = %(owner)s AND NOT is_withdrawn ORDER BY sent_at DESC, id DESC LIMIT 1)
    UNION ALL
    SELECT earlier.start FROM month CROSS JOIN LATERAL (
        SELECT date_trunc('month', sent_at, %(zone)s) AS start FROM memoryapp_message
        WHERE owner_id = %(owner)s AND NOT is_withdrawn AND sent_at < month.start
        ORDER BY sent_at DESC, id DESC LIMIT 1
    ) earlier
)
SELECT (start AT TIME ZONE %(zone)s)::date, ({_COUNT.format(owner="%(owner)s")}) FROM month LIMIT %(most)s
"""
LISTED_MONTHS = f"""
SELECT listed.owner, month, ({_COUNT.format(owner="listed.owner")})
FROM unnest(%(owners)s::bigint[]) AS listed (owner), unnest(%(months)s::date[]) AS month,
     LATERAL (SELECT month::timestamp AT TIME ZONE %(zone)s AS start) began
"""


def last_year(owners: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Messages of each of the last twelve months of the reader's clock, the oldest first, for each owner."""
    today = timezone.localdate()
    shown = _months(date(today.year - (today.month < 12), today.month % 12 + 1, 1), today)
    zone = timezone.get_current_timezone_name()
    with connection.cursor() as cursor:
        cursor.execute(LISTED_MONTHS, {"owners": list(owners), "months": shown, "zone": zone})
        found = {(owner, month): n for owner, month, n in cursor.fetchall()}
    return {owner: tuple(found[owner, month] for month in shown) for owner in owners}


def messages_by_month(owner: ChatUser) -> list[tuple[date, int]]:
    """The latest months with messages, with their numbers, oldest first, and the empty months between them.

    If a message is dated centuries off, only months with messages; never more than ``MOST_MONTHS``.
    """
    values: dict[str, int | str] = {
        "owner": owner.pk,
        "zone": timezone.get_current_timezone_name(),
        "most": MOST_MONTHS,
    }
    with connection.cursor() as cursor:
        cursor.execute(MONTHS, values)
        found: dict[date, int] = dict(cursor.fetchall())
    if not found:
        return []
    first, last = min(found), max(found)
    is_long = (last.year - first.year) * 12 + last.month - first.month >= MOST_MONTHS
    return [(month, found.get(month, 0)) for month in (sorted(found) if is_long else _months(first, last))]


def _months(first: date, last: date) -> list[date]:
    span = (last.year - first.year) * 12 + last.month - first.month
    return [date(first.year + (first.month - 1 + n) // 12, (first.month - 1 + n) % 12 + 1, 1) for n in range(span + 1)]
