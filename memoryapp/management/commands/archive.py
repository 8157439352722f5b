"""``archive [--user NAME] [--now]``: archives sessions into topics and makes their vectors before it returns."""

from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import gettext as _

from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.intake.archiving import ArchiveMark, IngestionError, archive, with_active_sessions
from memoryapp.intake.cutters import cutter
from memoryapp.management.arguments import MemoryCommand, named_user, utf8
from memoryapp.memory.sessions import limits
from memoryapp.models import ChatUser
from memoryapp.models.audit import Deed
from memoryapp.platform import cells
from memoryapp.platform.llm import clients
from memoryapp.platform.work import ARCHIVE, ProgressLines
from memoryapp.search import profiles
from memoryapp.search.vectors import EMBED, embed_pending

# The holder of a lock is at work and releases it when it ends; a waiting command shows the holder's progress.
FOREVER = timedelta.max


class Command(MemoryCommand):
    help = "Archives sessions into topics and makes their passages and vectors; joins a worker already doing it."
    refusals = (EmbeddingError, IngestionError)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", type=utf8, metavar="NAME", help="only this chat user")
        parser.add_argument("--now", action="store_true", help="also sessions that may not have ended yet")

    def handle(self, *args: Any, user: str | None, now: bool, **options: Any) -> None:
        owner = None if user is None else named_user(user, "archive", Deed.CHANGE)
        report: dict[str, int] = cells.everywhere()(self._in_cell)(owner, now)
        form = _("Messages archived: %(messages)s, of sessions: %(sessions)s, into new topics: %(topics)s.")
        self.answer(report, form % report, as_json=options["json"])

    def _in_cell(self, owner: ChatUser | None, now: bool) -> dict[str, int]:
        owners = [owner] if owner else list(with_active_sessions())
        mark = ArchiveMark.now(owners)
        self._archive(owners, now)
        self._embed(owner)
        done = mark.archived_since()
        return {name: getattr(done, name) for name in ("sessions", "topics", "messages")}

    def _archive(self, owners: Sequence[ChatUser], now: bool) -> None:
        embedder, lines = clients.embedder_of(profiles.profile_of(profiles.serving())), ProgressLines(self.stderr.write)
        open_chat = clients.open_chat if settings.LLM_BASE_URL else None
        for owner in owners:
            watch = partial(lines.watch, owner, ARCHIVE)
            cuts, bounds = cutter(owner, embedder, open_chat), limits(owner)
            archive(owner, cuts, bounds, now=now, wait=FOREVER, meanwhile=watch, worker="archive", report=lines)

    def _embed(self, owner: ChatUser | None) -> None:
        lines = ProgressLines(self.stderr.write)
        watch = partial(lines.watch, None, EMBED)
        embedder = clients.embedder_of(profiles.profile_of(profiles.serving()))
        async_to_sync(embed_pending)(embedder, owner, wait=FOREVER, meanwhile=watch, worker="archive", report=lines)
