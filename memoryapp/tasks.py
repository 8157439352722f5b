"""Celery's doors: each finds its work in the rows and calls one domain function, and may run twice."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asgiref.sync import async_to_sync
from django.conf import settings

from memoryapp import clients, ingestion, runs, vectors
from memoryapp.celery import app
from memoryapp.models import ChatUser, Message


@app.task
def close_abandoned_runs() -> None:
    runs.close_abandoned()


@app.task
def execute_waiting_runs() -> None:
    late = runs.waiting()
    if late:
        async_to_sync(_execute)(late)


async def _execute(late: list[UUID]) -> None:
    async with clients.open_clients() as opened:
        for run_id in late:
            await runs.execute(run_id, opened)


@app.task
def embed_pending() -> None:
    async_to_sync(vectors.embed_pending)(clients.embedder())


@app.task
def archive_due() -> None:
    for owner in ChatUser.objects.filter(pk__in=Message.objects.active().values("owner")).iterator():
        ingestion.archive(
            owner,
            clients.embedder(),
            now=False,
            interval=timedelta(seconds=settings.CHUNK_INTERVAL),
            most=settings.MAX_CHUNK_SIZE,
        )
