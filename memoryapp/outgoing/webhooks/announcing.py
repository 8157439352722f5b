"""Announces what happened: a row for each webhook that wants to know, in the transaction of what is announced.

A webhook that is removed meanwhile waits, and takes the row along. So nothing is lost when the process is killed, and
nothing is sent of what was rolled back. Whoever announces waits for no receiver; without webhooks it is one statement
over an empty table.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection

RUN_FINISHED = "run.finished"
RUN_FELL_BACK = "run.fell_back"
GOLDEN_DROPPED = "golden_run.dropped"
INBOX_WAITING = "inbox.waiting"
ERASURE_FINISHED = "erasure.finished"
# What a webhook can be for. Names are parts of the interface; they never change.
KINDS = (RUN_FINISHED, RUN_FELL_BACK, GOLDEN_DROPPED, INBOX_WAITING, ERASURE_FINISHED)
# Goes to the one webhook that is tried.
TEST = "webhook.test"
# Ends of a run that somebody intended, or that had nothing to choose from.
_MEANT = ("", "disabled", "stopped", "no_candidates")
# Findings come one after another; what came within this time is announced once.
_GATHERED = timedelta(minutes=1)

_ANNOUNCE = """
INSERT INTO memoryapp_webhookdelivery (webhook_id, owner_id, kind, subject, next_at)
SELECT hook.id, %(owner)s, %(kind)s, %(subject)s, statement_timestamp() + %(after)s
FROM memoryapp_webhook hook WHERE hook.state <> 'off' AND hook.kinds ? %(kind)s
FOR KEY SHARE
ON CONFLICT DO NOTHING
"""
# For the statement that ends a run: ``run`` is its row, ``stored`` has a row if this statement ended it. The runs of an
# evaluation are announced as one, when it has dropped.
RUN_ENDED = """
    INSERT INTO memoryapp_webhookdelivery (webhook_id, owner_id, kind, subject)
    SELECT hook.id, run.owner_id, news.kind, run.id::text
    FROM run CROSS JOIN unnest(%(news)b::text[]) news (kind)
    JOIN memoryapp_webhook hook ON hook.state <> 'off' AND hook.kinds ? news.kind
    WHERE run.evaluation_id IS NULL AND EXISTS (SELECT FROM stored)
    FOR KEY SHARE OF hook
"""


def news_of_run(fallback: str) -> list[str]:
    """The kinds by which the end of a run with this fallback is announced."""
    return [RUN_FINISHED] if fallback in _MEANT else [RUN_FINISHED, RUN_FELL_BACK]


def announce(kind: str, *, owner: int | None = None, subject: str = "", after: timedelta = timedelta(0)) -> None:
    """Writes the rows; call it in the transaction of what happened. Nothing is sent before ``after`` has passed."""
    values: dict[str, Any] = {"kind": kind, "owner": owner, "subject": subject, "after": after}
    with connection.cursor() as cursor:
        cursor.execute(_ANNOUNCE, values)


def announce_waiting(owner: int) -> None:
    """Announces that something waits for a person in this memory, once for all that comes within a minute."""
    announce(INBOX_WAITING, owner=owner, after=_GATHERED)
