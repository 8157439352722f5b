"""Celery's doors: each finds its work in the rows and calls one domain function, and may run twice."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from uuid import UUID

from asgiref.sync import async_to_sync
from axes.models import AccessFailureLog
from django.db import DatabaseError, connection
from django.utils import timezone

from memoryapp import clients, erasure, ingestion, runs, suggestions, vectors, work
from memoryapp.celery import app
from memoryapp.engine.embeddings import Embedder, EmbeddingError
from memoryapp.ingestion import IngestionError
from memoryapp.login_sessions import SessionStore
from memoryapp.logs import cause
from memoryapp.models import ChatUser
from memoryapp.outages import is_outage

FAILURES_KEPT = timedelta(days=90)

logger = logging.getLogger(__name__)


@app.task
def close_abandoned_runs() -> None:
    runs.close_abandoned()


@app.task
def execute_waiting_runs() -> None:
    late = runs.waiting()
    if late:
        async_to_sync(_execute)(late)


async def _execute(late: list[UUID]) -> None:
    """All at once, for they wait for models and not for each other. What goes wrong with one is logged."""
    async with clients.open_clients() as opened:
        ended = await asyncio.gather(*(runs.execute(run_id, opened) for run_id in late), return_exceptions=True)
    for fault in ended:
        if isinstance(fault, BaseException) and not is_outage(fault):
            logger.error("a run ended with a fault", exc_info=fault)


@app.task
def clear_login_sessions() -> None:
    SessionStore.clear_expired()
    AccessFailureLog.objects.filter(attempt_time__lt=timezone.now() - FAILURES_KEPT).delete()


@app.task
def embed_pending() -> None:
    try:
        async_to_sync(vectors.embed_pending)(clients.embedder())
    except EmbeddingError as error:
        logger.warning("Vectors are missing, and will be asked for again: %s", cause(error))


@app.task
def archive_due() -> None:
    embedder = clients.embedder()
    for owner in ingestion.with_active_sessions().iterator():
        _archive(owner, embedder)


@app.task
def archive_asked() -> None:
    """What somebody waits for; ``archive_due`` would come to it within a minute."""
    owners = list(work.asked_to_archive())
    for owner in owners:
        _archive(owner, clients.embedder())


def _archive(owner: ChatUser, embedder: Embedder) -> None:
    """One chat user's sessions. What goes wrong is logged, so that the others' turn comes."""
    try:
        ingestion.archive(owner, embedder, ingestion.limits())
    except (EmbeddingError, IngestionError) as error:
        logger.warning("Sessions of chat user %s are not archived yet: %s", owner.pk, cause(error))
    except DatabaseError as error:
        if is_outage(error):
            raise
        logger.exception("Sessions of chat user %s are not archived yet.", owner.pk)
        if not connection.is_usable():
            connection.close()


@app.task
def erase_due() -> None:
    """What was begun and has not ended, because its process was killed or left it to the worker."""
    for begun in erasure.unfinished():
        try:
            erasure.finish(begun, wait=timedelta(0))
        except (DatabaseError, OSError):
            logger.exception("Erasure %s has not ended yet.", begun.pk)
            if not connection.is_usable():
                connection.close()


@app.task
def suggest_due() -> None:
    for owner in suggestions.with_unchecked().iterator():
        _suggest(owner)


def _suggest(owner: ChatUser) -> None:
    """One chat user's suggestions. What goes wrong is logged, so that the others' turn comes."""
    try:
        suggestions.suggest(owner)
    except DatabaseError as error:
        if is_outage(error):
            raise
        logger.exception("Nothing could be suggested for chat user %s.", owner.pk)
        if not connection.is_usable():
            connection.close()
