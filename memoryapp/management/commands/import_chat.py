"""``import_chat PATH --user NAME``: a chat file into the memory; a second run adds nothing."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.erasure import BeingErased
from memoryapp.importers import FORMATS, UnreadableFile, open_chat
from memoryapp.imports import Imported, import_chat

MOST_SHOWN = 20


class Command(BaseCommand):
    help = "Imports a chat: JSON Lines, a Telegram Desktop result.json or a ChatGPT conversations.json."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH")
        parser.add_argument(
            "--user", default="", metavar="NAME", help="whose memory it is, unless the file names several users"
        )
        parser.add_argument("--format", default="auto", choices=("auto", *FORMATS))
        parser.add_argument("--dry-run", action="store_true", help="say what would happen and change nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, path: Path, user: str, format: str, dry_run: bool, **options: Any) -> None:
        user = _checked(user)
        try:
            imported = import_chat(open_chat(path, format, owner=user), user, dry_run=dry_run)
        except (UnreadableFile, BeingErased) as error:
            raise CommandError(error) from None
        if imported.note:
            self.stderr.write(imported.note)
        if options["json"]:
            self.stdout.write(json.dumps(_document(imported), ensure_ascii=False))
        else:
            self._tell(imported, dry_run)
        if not imported.users:
            raise CommandError(_("No message could be read from %(path)s.") % {"path": path})

    def _tell(self, imported: Imported, dry_run: bool) -> None:
        if imported.users:
            form = _("%(users)s: %(added)s would be added, %(skipped)s are there already.")
            if not dry_run:
                form = _("%(users)s: %(added)s added, %(skipped)s were there already.")
            users = ", ".join(imported.users)
            self.stdout.write(form % {"users": users, "added": imported.added, "skipped": imported.skipped})
        for item in imported.rejected[:MOST_SHOWN]:
            place = f"line {item.line}" if isinstance(item.line, int) else item.line
            self.stderr.write(f"{place}: {item.reason}")
        more = len(imported.rejected) - MOST_SHOWN
        if more > 0:
            self.stderr.write(
                ngettext("%(more)s more was rejected.", "%(more)s more were rejected.", more) % {"more": more}
            )


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
        "rejected": [{"line": item.line, "reason": item.reason} for item in imported.rejected],
    }
