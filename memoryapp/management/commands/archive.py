"""``archive [--user NAME] [--now]``: sessions into topics, with their vectors, before it returns."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from memoryapp import clients
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.ingestion import IngestionError, Mark, archive, limits, with_active_sessions
from memoryapp.models import ChatUser, Work
from memoryapp.vectors import embed_pending
from memoryapp.work import Lines

# Whoever holds a lock works, and a process that ends gives it back; one that waits says what it waits for.
FOREVER = timedelta.max


class Command(BaseCommand):
    help = "Archives sessions into topics, and makes their passages and vectors; joins a worker that is at it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", metavar="NAME", help="only this chat user")
        parser.add_argument("--now", action="store_true", help="also sessions that may still go on")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, user: str | None, now: bool, **options: Any) -> None:
        owners = _owners(user)
        mark = Mark.now(owners)
        try:
            self._archive(owners, now)
            self._embed(owners[0] if user else None)
        except (EmbeddingError, IngestionError) as error:
            raise CommandError(error) from None
        done = mark.archived_since()
        report = {name: getattr(done, name) for name in ("sessions", "topics", "messages")}
        if options["json"]:
            self.stdout.write(json.dumps(report))
        else:
            form = _("Messages archived: %(messages)s, of sessions: %(sessions)s, into new topics: %(topics)s.")
            self.stdout.write(form % report)

    def _archive(self, owners: Sequence[ChatUser], now: bool) -> None:
        embedder, lines = clients.embedder(), Lines(self.stderr.write)
        for owner in owners:
            watch = partial(lines.watch, owner, Work.Kind.ARCHIVE)
            archive(owner, embedder, limits(), now=now, wait=FOREVER, meanwhile=watch, worker="archive", report=lines)

    def _embed(self, owner: ChatUser | None) -> None:
        lines = Lines(self.stderr.write)
        watch = partial(lines.watch, None, Work.Kind.EMBED)
        async_to_sync(embed_pending)(
            clients.embedder(), owner, wait=FOREVER, meanwhile=watch, worker="archive", report=lines
        )


def _owners(user: str | None) -> list[ChatUser]:
    if user is None:
        return list(with_active_sessions())
    owner = ChatUser.objects.filter(name=user).first()
    if owner is None:
        raise CommandError(_("There is no chat user named %(name)s.") % {"name": user})
    return [owner]
