"""The tasks of the worker: each finds its work in the rows, calls one domain function, and may run twice.

Chat users with work are listed before it begins: no cursor stays open while a model is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from asgiref.sync import async_to_sync
from axes.models import AccessFailureLog
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from memoryapp import bulk, clients, consolidation, erasure, extraction, import_files, suggestions, work
from memoryapp.accounts.login_sessions import SessionStore
from memoryapp.artifacts import arrival, processing
from memoryapp.artifacts.describing import Describer
from memoryapp.celery import app
from memoryapp.engine.agents.ask import UnreadableAnswer
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.erasure import scanner
from memoryapp.evaluation import passes
from memoryapp.evaluation.questions import QuestionsError
from memoryapp.ingestion import archiving
from memoryapp.ingestion.cutters import cutter
from memoryapp.ingestion.topics import IngestionError
from memoryapp.models import BulkWork, ChatUser, EmbeddingProfile, Erasure, Evaluation, ImportFile, Work
from memoryapp.nights import alarms, judging, schedule
from memoryapp.operations import advisory_locks
from memoryapp.operations.logs import cause
from memoryapp.operations.outages import is_outage
from memoryapp.operations.pauses import StagePaused
from memoryapp.runs import closing, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search import missing, profiles, vectors
from memoryapp.sessions import passages
from memoryapp.sessions.active import limits
from memoryapp.traces import ending
from memoryapp.webhooks import log, sending

FAILURES_KEPT = timedelta(days=90)
EXTRACTION_SECONDS = 60.0
BULK_SECONDS = 20.0
# How many sweeps of sessions may run at once.
DUE_LANES = 2
# How many sweeps may read files at once, some of which a model describes.
READING_LANES = 2

logger = logging.getLogger(__name__)


@app.task
def close_abandoned_runs() -> None:
    closing.close_abandoned()


@app.task
def end_quiet_traces() -> None:
    ending.end_quiet()
    ending.drop_spans()


@app.task
def execute_waiting_runs() -> None:
    late = lifecycle.unclaimed()
    if late:
        async_to_sync(_execute)(late)


async def _execute(late: list[UUID]) -> None:
    """Executes all at once: they wait for models and not for each other. A fault of one is logged."""
    async with open_clients() as opened:
        ended = await asyncio.gather(*(lifecycle.execute(run_id, opened) for run_id in late), return_exceptions=True)
    for fault in ended:
        if isinstance(fault, BaseException) and not is_outage(fault):
            logger.error("A run ended with a fault.", exc_info=fault)


@app.task
def evaluate_asked() -> None:
    """Asks the questions of evaluations that a page started."""
    with _lane("evaluate_asked", 1) as is_free:
        for row in list(passes.waiting()) if is_free else ():
            try:
                async_to_sync(_carry_on)(row)
            except QuestionsError as error:
                logger.warning("Evaluation %s cannot go on: %s", row.pk, error)
                passes.stop(row)


async def _carry_on(row: Evaluation) -> None:
    async with open_clients() as opened:
        await passes.carry_on(row, opened)


@app.task
def watch_nights() -> None:
    """Begins the golden sets of the night that are due, judges those that were asked, and mails what dropped."""
    schedule.begin_due()
    judging.judge_ended()
    alarms.send_mail_due()


@app.task
def clear_login_sessions() -> None:
    SessionStore.clear_expired()
    AccessFailureLog.objects.filter(attempt_time__lt=timezone.now() - FAILURES_KEPT).delete()


@app.task
def embed_pending() -> None:
    """Makes the vectors of the profile that serves, then those of the one that is to take over.

    A model that did not answer is left alone for a while.
    """
    if work.is_paused(Work.Kind.EMBED):
        return
    for row in profiles.to_make():
        _embed(row)
    if changed := profiles.change_over():
        logger.warning("The embedding profile %s has all its vectors and serves searches from now on.", changed)


def _embed(row: EmbeddingProfile, owner: ChatUser | None = None) -> None:
    """Makes the missing vectors of a profile, of one chat user or of all."""
    if profiles.is_resting(row):
        return
    try:
        async_to_sync(vectors.embed_pending)(clients.embedder_of(profiles.profile_of(row)), owner)
    except EmbeddingError as error:
        profiles.postpone(row, cause(str(error)), error.note)
        logger.warning("Vectors are missing and will be requested again: %s", cause(error))


@app.task
def index_talk() -> None:
    """Makes the passages of messages that came with a file, and the vectors of what was just said."""
    for owner in list(passages.with_bare()):
        _renew(owner)
    row = profiles.serving()
    fresh = ChatUser.objects.filter(pk__in=missing.fresh(row).values("owner"))
    for owner in list(work.unpaused(fresh, Work.Kind.EMBED)):
        _embed(row, owner)


def _renew(owner: ChatUser) -> None:
    """Makes one chat user's passages. A fault is logged, so that the others get their turn."""
    try:
        passages.renew(owner)
    except DatabaseError as error:
        if is_outage(error):
            raise
        _log_fault("Messages of chat user %s have no passages yet.", owner.pk)


@app.task
def read_artifacts() -> None:
    """Makes artifacts of the files that were sent with queries, and reads those that are due."""
    arrival.take_in()
    with _lane("read_artifacts", READING_LANES) as is_free:
        if is_free:
            processing.process_due(describer=_describer())


def _describer() -> Describer | None:
    if not settings.LLM_BASE_URL:
        return None
    return Describer(settings.ARCHIVIST_TIMEOUT, settings.MEDIA_MAX_BYTES, clients.open_chat)


@app.task
def carry_on_bulk() -> None:
    """Carries on with work on many topics, until the next sweeps need the thread; other works take turns."""
    with _lane("carry_on_bulk", 1) as is_free:
        for row in list(bulk.going_on()) if is_free else ():
            _carry_on_bulk(row)


def _carry_on_bulk(row: BulkWork) -> None:
    """One work for a while. A fault is logged, so that the others get their turn."""
    try:
        bulk.carry_on(row, until=extraction.enough_after(BULK_SECONDS))
    except DatabaseError as error:
        if is_outage(error):
            raise
        _log_fault("Work %s on many topics does not go on.", row.pk)


@app.task
def archive_due() -> None:
    with _lane("archive_due", DUE_LANES) as is_free:
        owners = archiving.with_active_sessions() if is_free else ChatUser.objects.none()
        for owner in list(work.unpaused(owners, Work.Kind.ARCHIVE)):
            _archive(owner, _embedder())


@app.task
def archive_asked() -> None:
    """Archives at once what a person requested; ``archive_due`` would do it within a minute."""
    with _lane("archive_asked", 1) as is_free:
        for owner in list(work.unpaused(work.asked_to_archive(), Work.Kind.ARCHIVE)) if is_free else ():
            _archive(owner, _embedder())


@contextmanager
def _lane(task: str, lanes: int) -> Iterator[bool]:
    """Yields whether fewer than ``lanes`` other threads do this: a slow chat model must not occupy the whole worker."""
    mine = next((number for number in range(lanes) if advisory_locks.try_acquire(task, number)), None)
    try:
        yield mine is not None
    finally:
        if mine is not None:
            advisory_locks.release(task, mine)


def _embedder() -> Embedder:
    """Returns the embedder of the serving profile."""
    return clients.embedder_of(profiles.serving_profile())


def _archive(owner: ChatUser, embedder: Embedder) -> None:
    """Archives one chat user's sessions. A fault is logged, so that the others get their turn."""
    try:
        open_chat = clients.open_chat if settings.LLM_BASE_URL else None
        archiving.archive(owner, cutter(owner, embedder, open_chat), limits(owner))
    except (EmbeddingError, IngestionError) as error:
        logger.warning("Sessions of chat user %s are not archived yet: %s", owner.pk, cause(error))
    except DatabaseError as error:
        if is_outage(error):
            raise
        _log_fault("Sessions of chat user %s are not archived yet.", owner.pk)


@app.task
def import_waiting() -> None:
    """Rehearses and imports the files that people uploaded on the page of imports."""
    for row in import_files.unfinished().select_related("owner"):
        if row.state == ImportFile.State.IMPORTING and work.is_paused(Work.Kind.IMPORT, row.owner):
            continue
        try:
            import_files.work_on(row)
        except StagePaused:
            continue
        except Exception as error:
            # One file must not stop the import of the others.
            if is_outage(error):
                raise
            _log_fault("File %s is not imported.", row.pk)
            import_files.fail(row)


@app.task
def clear_import_files() -> None:
    import_files.clear()


@app.task
def erase_due() -> None:
    """Continues erasures that have not ended, because a process was killed or left them to the worker."""
    if work.is_paused(Work.Kind.ERASE):
        return
    for begun in erasure.due():
        try:
            erasure.finish(begun, wait=timedelta(0))
        except (DatabaseError, OSError):
            _log_fault("Erasure %s has not ended yet.", begun.pk)


@app.task
def verify_asked() -> None:
    """Verifies receipts on request; it reads the whole database, so no erasure waits for it."""
    with _lane("verify_asked", 1) as is_free:
        asked = Erasure.objects.filter(verify_asked_at__isnull=False, ended_at__isnull=False).order_by("pk")
        for receipt in asked if is_free else ():
            scanner.verify(receipt)


@app.task
def send_webhooks() -> None:
    """Sends the messages to webhooks that are due. One sweep at a time, which serves every receiver by itself."""
    with _lane("send_webhooks", 1) as is_free:
        if is_free and sending.is_due():
            async_to_sync(sending.send_due)()


@app.task
def clear_webhooks() -> None:
    log.prune()


@app.task
def suggest_due() -> None:
    for owner in list(work.unpaused(suggestions.with_unchecked(), Work.Kind.CONSOLIDATE)):
        _suggest(owner)


def _suggest(owner: ChatUser) -> None:
    """Suggests for one chat user. A fault is logged, so that the others get their turn."""
    try:
        suggestions.suggest(owner)
    except DatabaseError as error:
        if is_outage(error):
            raise
        _log_fault("No suggestions could be made for chat user %s.", owner.pk)


@app.task
def consolidate_due() -> None:
    """Has the merger judge suggested merges, a batch for each chat user; without a chat model people judge alone."""
    if not settings.LLM_BASE_URL:
        return
    with advisory_locks.exclusive("consolidation", 0) as is_alone:
        for owner in list(work.unpaused(consolidation.due(), Work.Kind.CONSOLIDATE)) if is_alone else ():
            _consolidate(owner)


def _consolidate(owner: ChatUser) -> None:
    """Judges for one chat user. A fault is logged, so that the others get their turn."""
    try:
        consolidation.consolidate(owner, clients.open_chat)
    except LLMError as error:
        logger.warning("Merges of chat user %s are not judged yet: %s", owner.pk, cause(error))
    except UnreadableAnswer:
        logger.warning("A merge of chat user %s is not judged: nobody can read the model's answer.", owner.pk)
    except DatabaseError as error:
        if is_outage(error):
            raise
        _log_fault("Merges of chat user %s are not judged yet.", owner.pk)


@app.task
def extract_due() -> None:
    """Extracts facts and people from topics until the next sweep is due, if a chat model is connected."""
    if not settings.LLM_BASE_URL:
        return
    model = extraction.Model(settings.ARCHIVIST_TIMEOUT, clients.open_chat)
    is_enough = extraction.enough_after(EXTRACTION_SECONDS)
    for owner in list(work.unpaused(extraction.with_due(), Work.Kind.EXTRACT)):
        if is_enough():
            return
        _extract(owner, model, is_enough)


def _extract(owner: ChatUser, model: extraction.Model, is_enough: Callable[[], bool]) -> None:
    """Extracts facts and people from one chat user's topics. A fault is logged, so that the others get their turn."""
    try:
        extraction.extract(owner, model, _embedder(), until=is_enough)
    except extraction.ModelFailed as error:
        logger.warning("Topics of chat user %s are not read for facts yet: %s", owner.pk, cause(error))
    except DatabaseError as error:
        if is_outage(error):
            raise
        _log_fault("Topics of chat user %s are not read for facts yet.", owner.pk)


def _log_fault(message: str, number: int) -> None:
    """Logs the exception that is being handled, and closes a connection that it left unusable."""
    logger.exception(message, number)
    if not connection.is_usable():
        connection.close()
