"""The tasks of the worker: the sweeps of all stages (``memoryapp.upkeep.pipeline``), and those below, which no page
shows as a stage. Each finds its work in the rows, calls one domain function, and may run twice.

Chat users with work are listed before it begins: no cursor stays open while a model is asked.
"""

import logging
from contextlib import suppress
from datetime import timedelta
from functools import partial

from asgiref.sync import async_to_sync
from axes.models import AccessFailureLog
from django.conf import settings
from django.utils import timezone

from memoryapp.celery import sweep
from memoryapp.curation import bulk
from memoryapp.doors.traces import arrival
from memoryapp.erasure import expiry
from memoryapp.insight.evaluation import nights, passes
from memoryapp.insight.misses import misses
from memoryapp.models import Evaluation
from memoryapp.platform import cells
from memoryapp.platform.accounts.signing_in import SessionStore
from memoryapp.platform.audit import chain
from memoryapp.platform.database import StagePaused, each_alone, enough_after, lane, log_and_continue
from memoryapp.platform.logs import cause
from memoryapp.platform.webhooks import sending
from memoryapp.runs import endings
from memoryapp.runs.clients import open_clients
from memoryapp.upkeep import alarms
from memoryapp.upkeep.alarms import LOOKS_EVERY
from memoryapp.upkeep.demo import visits
from memoryapp.upkeep.pipeline.archive import archive_asked, archive_due
from memoryapp.upkeep.pipeline.artifacts import read_artifacts
from memoryapp.upkeep.pipeline.consolidate import consolidate_due, suggest_due
from memoryapp.upkeep.pipeline.embed import embed_pending, index_talk
from memoryapp.upkeep.pipeline.erase import erase_due, verify_asked
from memoryapp.upkeep.pipeline.extract import extract_due
from memoryapp.upkeep.pipeline.imports import clear_import_files, import_waiting
from memoryapp.upkeep.pipeline.recalls import execute_waiting_runs
from memoryapp.upkeep.watches import PROCESSES, WATCHES

FAILURES_KEPT = timedelta(days=90)
BULK_SECONDS = 20.0

logger = logging.getLogger(__name__)


@sweep(every=5.0)
def close_abandoned_runs() -> None:
    """Ends runs whose process was killed."""
    endings.close_abandoned()


@sweep(every=10.0)
def end_quiet_traces() -> None:
    """Ends foreign runs of which nothing more came."""
    arrival.end_quiet()
    arrival.drop_spans()


@sweep(every=3.0, of_all=True)
def evaluate_asked() -> None:
    """Asks the questions of evaluations that a page started."""
    with lane("evaluate_asked", 1) as is_free:
        for row in list(passes.waiting()) if is_free else ():
            # What a cap stops waits until the day turns, and the others go on.
            keep = partial(_stop_evaluation, row)
            with suppress(StagePaused), log_and_continue("Evaluation %s cannot go on.", row.pk, keep):
                async_to_sync(_carry_on)(row)


def _stop_evaluation(row: Evaluation, error: Exception) -> None:
    """It is not tried again by itself: each try would ask, and pay for, the same questions."""
    passes.stop(row, cause(str(error) or type(error).__name__))


async def _carry_on(row: Evaluation) -> None:
    async with open_clients() as opened:
        await passes.carry_on(row, opened)


@sweep(every=10.0, of_all=True)
def watch_nights() -> None:
    """Begins the golden sets of the night that are due, judges those that were asked, and mails what dropped."""
    nights.begin_due()
    nights.judge_ended()
    nights.send_mail_due()


@sweep(every=5.0)
def explain_misses() -> None:
    """Finds where misses were lost whose run has ended, before anybody looks."""
    misses.explain_due()


@sweep(every=3600.0, of_all=True)
def clear_login_sessions() -> None:
    """Deletes login sessions that have expired, old failures to sign in, and what guests of a demo asked."""
    SessionStore.clear_expired()
    AccessFailureLog.objects.filter(attempt_time__lt=timezone.now() - FAILURES_KEPT).delete()
    if settings.DEMO_READ_ONLY:
        visits.clear()


@sweep(every=3.0)
def carry_on_bulk() -> None:
    """Carries on with work on many topics, until the next sweeps need the thread; other works take turns."""
    with lane("carry_on_bulk", 1) as is_free:
        if is_free:
            carry_on = partial(bulk.carry_on, until=enough_after(BULK_SECONDS))
            each_alone(list(bulk.going_on()), "Work %s on many topics does not go on.", carry_on)


@sweep(every=2.0, of_all=True)
def send_webhooks() -> None:
    """Sends the messages to webhooks that are due. One sweep at a time, which serves every receiver by itself."""
    with lane("send_webhooks", 1) as is_free:
        if is_free and sending.is_due():
            async_to_sync(sending.send_due)()


@sweep(every=LOOKS_EVERY, of_all=True)
def keep_watch() -> None:
    """Looks for what is late or in trouble, and tells what begins or is over."""
    alarms.look([watch for watch in WATCHES.values() if watch is not PROCESSES], timezone.now())
    alarms.send_mail_due()


@sweep(every=60.0, of_all=True)
def seal_audit() -> None:
    """Seals new entries of the audit log, and removes those whose days are over."""
    chain.seal_due()
    chain.prune()


@sweep(every=60.0, of_all=True)
def expire_due() -> None:
    """Erases what was set aside long enough, and sets aside what rules find now."""
    with lane("expire_due", 1) as is_free:
        if is_free:
            for _number in cells.each():
                each_alone(expiry.due_batches(), "Batch %s does not go yet.", expiry.erase)
            apply = partial(expiry.apply, is_enough=enough_after(BULK_SECONDS))
            each_alone(expiry.due_rules(), "Rule %s of what expires is not applied.", apply)


@sweep(every=3600.0, of_all=True)
def clear_webhooks() -> None:
    """Deletes old messages to webhooks."""
    sending.prune()


__all__ = [
    "archive_asked",
    "archive_due",
    "carry_on_bulk",
    "clear_import_files",
    "clear_login_sessions",
    "clear_webhooks",
    "close_abandoned_runs",
    "consolidate_due",
    "embed_pending",
    "end_quiet_traces",
    "erase_due",
    "evaluate_asked",
    "execute_waiting_runs",
    "expire_due",
    "explain_misses",
    "extract_due",
    "import_waiting",
    "index_talk",
    "keep_watch",
    "read_artifacts",
    "seal_audit",
    "send_webhooks",
    "suggest_due",
    "verify_asked",
    "watch_nights",
]
