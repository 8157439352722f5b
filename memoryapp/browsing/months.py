"""How many messages each month brought, for the charts that show when a memory grew."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from django.db import connection
from django.db.models import Count
from django.db.models.functions import TruncMonth
from django.utils import timezone

from memoryapp.models import ChatUser, Message

MOST_MONTHS = 240
# From the latest month to the one before it that holds a message, and so on: the index ``message_counted`` finds each
# in one step and counts it, and no month is computed of every single message.
MONTHS = """
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
SELECT (start AT TIME ZONE %(zone)s)::date, (
    SELECT count(*) FROM memoryapp_message WHERE owner_id = %(owner)s AND NOT is_withdrawn
    AND sent_at >= start AND sent_at < (start AT TIME ZONE %(zone)s + interval '1 month') AT TIME ZONE %(zone)s
) FROM month LIMIT %(most)s
"""


def last_year(owners: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Messages of each of the last twelve months, the oldest first, for each owner."""
    today = timezone.now().date()
    shown = _months(date(today.year - (today.month < 12), today.month % 12 + 1, 1), today)
    since = datetime(*shown[0].timetuple()[:3], tzinfo=UTC)
    rows = Message.objects.filter(owner__in=owners, sent_at__gte=since).present()
    counted = rows.annotate(month=TruncMonth("sent_at")).values_list("owner", "month").annotate(n=Count("id"))
    found = {(owner, month.date()): n for owner, month, n in counted.order_by()}
    return {owner: tuple(found.get((owner, month), 0) for month in shown) for owner in owners}


def messages_by_month(owner: ChatUser) -> list[tuple[date, int]]:
    """The latest months that hold messages, with how many, oldest first, and the empty ones between them.

    Where one message is dated centuries off, only the months that hold some; never more than ``MOST_MONTHS``.
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
