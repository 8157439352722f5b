"""Archives chat users' sessions with a slow chat model; for processes that are killed meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta

from asgiref.sync import sync_to_async

from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.intake.archiving import archive
from memoryapp.intake.cutters import ModelCutter
from memoryapp.memory.sessions import SessionLimits
from memoryapp.models import ChatUser, Message
from tests.intake.test_archiving import in_pairs
from tests.search.test_vectors import Hashing
from tests.support.splitting import SplittingChat

LIMITS = SessionLimits(timedelta(hours=1), 400, 25_000)


class Hesitant(SplittingChat):
    """Answers after up to a twentieth of a second."""

    async def converse(self, request: ChatRequest) -> AsyncIterator[Reply]:
        await asyncio.sleep(random.random() / 20)
        async for reply in super().converse(request):
            yield reply


async def warm() -> None:
    """Does nothing, because there is nothing to load."""


async def execute(names: list[str]) -> None:
    await sync_to_async(archive_all)(names)


def archive_all(names: list[str], chat: SplittingChat | None = None) -> None:
    """Archives all sessions of these chat users, also while other processes do."""
    for owner in ChatUser.objects.filter(pk__in=names):
        cutter = ModelCutter(owner, (chat or Hesitant()).open, in_pairs, Hashing())
        while Message.objects.of(owner).active().exists():
            archive(owner, cutter, LIMITS, now=True, wait=timedelta(seconds=1))
