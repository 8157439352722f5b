"""``archive [--user NAME] [--now]``: sessions into topics, with their vectors, before it returns."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from memoryapp import clients
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.ingestion import IngestionError, archive, limits, with_active_sessions
from memoryapp.models import ChatUser
from memoryapp.vectors import embed_pending

WAIT = timedelta(seconds=60)


class Command(BaseCommand):
    help = "Archives sessions into topics, and makes their passages and vectors."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", metavar="NAME", help="only this chat user")
        parser.add_argument("--now", action="store_true", help="also sessions that may still go on")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, user: str | None, now: bool, **options: Any) -> None:
        embedder = clients.embedder()
        try:
            owners = _owners(user)
            done = [archive(owner, embedder, limits(), now=now, wait=WAIT) for owner in owners]
            async_to_sync(embed_pending)(embedder, owners[0] if user else None, wait=WAIT)
        except (EmbeddingError, IngestionError) as error:
            raise CommandError(error) from None
        report = {name: sum(getattr(part, name) for part in done) for name in ("sessions", "topics", "messages")}
        if options["json"]:
            self.stdout.write(json.dumps(report))
        else:
            form = _("Messages archived: %(messages)s, of sessions: %(sessions)s, into new topics: %(topics)s.")
            self.stdout.write(form % report)
        if any(part.busy for part in done):
            raise CommandError(_("Another process is archiving the same chat user; run this again later."))


def _owners(user: str | None) -> list[ChatUser]:
    if user is None:
        return list(with_active_sessions())
    owner = ChatUser.objects.filter(name=user).first()
    if owner is None:
        raise CommandError(_("There is no chat user named %(name)s.") % {"name": user})
    return [owner]
