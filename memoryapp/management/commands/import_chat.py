"""``import_chat PATH --user NAME``: a chat file into the memory; a second run adds nothing."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.erasure import BeingErased
from memoryapp.importers import FORMATS, ChatFile, Hints, UnknownSpeaker, UnreadableFile, open_chat
from memoryapp.importers.record import BadRecord, moment
from memoryapp.importers.telegram_chats import NOBODY
from memoryapp.imports import Imported, import_chat
from memoryapp.work import Lines

MOST_SHOWN = 20


class Command(BaseCommand):
    help = (
        "Imports a chat: JSON Lines, a Telegram Desktop result.json or a ChatGPT conversations.json; zip and gzip too."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH")
        parser.add_argument(
            "--user", default="", metavar="NAME", help="whose memory it is, unless the file names several users"
        )
        parser.add_argument("--format", default="auto", choices=("auto", *FORMATS))
        parser.add_argument(
            "--me", default="", metavar="NAME", help="who of a group the user is, by name or id; - for nobody"
        )
        parser.add_argument("--start", type=_date, metavar="DATE", help="when a file without times began")
        parser.add_argument("--any-dates", action="store_true", help="also take dates before 1970 or after next year")
        parser.add_argument("--dry-run", action="store_true", help="say what would happen and change nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, path: Path, user: str, format: str, dry_run: bool, **options: Any) -> None:
        user = _checked(user)
        hints = Hints(user, options["me"], options["start"], options["any_dates"])
        try:
            chat = self._opened(path, format, hints, may_ask=not options["json"])
            imported = import_chat(chat, user, dry_run=dry_run, report=Lines(self.stderr.write))
        except (UnreadableFile, BeingErased) as error:
            raise CommandError(error) from None
        if imported.note:
            self.stderr.write(imported.note)
        if options["json"]:
            self.stdout.write(json.dumps(_document(imported), ensure_ascii=False))
        else:
            self._tell(imported, dry_run)
        if not imported.users:
            raise CommandError(_nothing(path, imported))

    def _opened(self, path: Path, format: str, hints: Hints, *, may_ask: bool) -> ChatFile:
        """The file; a person at a terminal is asked who of a group they are."""
        try:
            return open_chat(path, format, hints)
        except UnknownSpeaker as error:
            if not may_ask or hints.me or not sys.stdin.isatty():
                raise
            self.stderr.write(str(error))
            return open_chat(path, format, replace(hints, me=input(_("Who is the user? ")).strip() or NOBODY))

    def _tell(self, imported: Imported, dry_run: bool) -> None:
        if imported.users:
            form = _("%(users)s: %(added)s would be added, %(skipped)s are there already.")
            if not dry_run:
                form = _("%(users)s: %(added)s added, %(skipped)s were there already.")
            users = ", ".join(imported.users)
            self.stdout.write(form % {"users": users, "added": imported.added, "skipped": imported.skipped})
        if imported.changed.count:
            self.stderr.write(_changed(imported))
        for item in imported.rejected.items[:MOST_SHOWN]:
            place = f"line {item.line}" if isinstance(item.line, int) else item.line
            self.stderr.write(f"{place}: {item.reason}")
        more = imported.rejected.count - MOST_SHOWN
        if more > 0:
            self.stderr.write(
                ngettext("%(more)s more was rejected.", "%(more)s more were rejected.", more) % {"more": more}
            )


def _date(text: str) -> datetime:
    try:
        return moment(text)
    except BadRecord as error:
        raise ArgumentTypeError(str(error)) from None


def _changed(imported: Imported) -> str:
    ids = [item.known_id for item in imported.changed.items[:MOST_SHOWN]]
    return ngettext(
        "%(count)s message was edited since it was imported; the memory keeps the text it has: %(ids)s",
        "%(count)s messages were edited since they were imported; the memory keeps the texts it has: %(ids)s",
        imported.changed.count,
    ) % {"count": imported.changed.count, "ids": ", ".join(ids) + ("…" if imported.changed.count > len(ids) else "")}


def _nothing(path: Path, imported: Imported) -> str:
    sentence = _("No message could be read from %(path)s.") % {"path": path}
    first = imported.rejected.items[:1]
    return f"{sentence} {first[0].line}: {first[0].reason}." if first else sentence


def _checked(user: str) -> str:
    user = user.strip()
    if len(user) > 200 or not user.isprintable():
        raise CommandError(_("A chat user's name is at most 200 characters in one line."))
    return user


def _document(imported: Imported) -> dict[str, Any]:
    return {
        "users": list(imported.users),
        "messages_added": imported.added,
        "messages_skipped": imported.skipped,
        "messages_rejected": imported.rejected.count,
        "rejected": [{"line": item.line, "reason": item.reason} for item in imported.rejected.items],
        "messages_changed": imported.changed.count,
        "changed": [item.known_id for item in imported.changed.items],
    }
