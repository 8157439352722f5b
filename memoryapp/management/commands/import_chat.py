"""``import_chat PATH --user NAME``: imports a chat file into a memory; a second run adds nothing."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.engine.sight import Sight, looking
from memoryapp.importers import FORMATS, NOBODY, ChatFile, Hints, UnknownSpeaker, UnreadableFile, open_chat
from memoryapp.importers.values import BadRecord, moment
from memoryapp.intake import transfer
from memoryapp.intake.imports import Imported, NamedMessages, addressee_of, batch_of, import_chat
from memoryapp.intake.transfer import distilled
from memoryapp.intake.transfer.distilled import DistilledCounts
from memoryapp.management.arguments import project, utf8
from memoryapp.memory.content import BeingErased
from memoryapp.models import ChatUser
from memoryapp.models.audit import Deed
from memoryapp.platform.audit import entries
from memoryapp.platform.caps import QuotaReached
from memoryapp.platform.work import ProgressLines, Report

MOST_SHOWN = 20
# Places that are named with a reason.
MOST_PLACES = 3
# The actor, in the history, of changes that bring what came with the messages.
ACTOR = "import_chat"


class Command(BaseCommand):
    help = (
        "Imports a chat: JSON Lines, Telegram Desktop's result.json, conversations.json of ChatGPT or Claude, the text "
        "of WhatsApp or KakaoTalk, Discord (DiscordChatExporter), Open WebUI, Letta, mem0, logs of Claude Code and "
        "Codex, lists of OpenAI messages, laplaced's database (a file, a folder, zip or gzip)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH")
        parser.add_argument(
            "--user",
            type=utf8,
            default="",
            metavar="NAME",
            help="whose memory it is, unless the file names several users",
        )
        parser.add_argument("--format", default="auto", choices=("auto", *sorted(FORMATS)))
        parser.add_argument(
            "--me",
            type=utf8,
            default="",
            metavar="NAME",
            help="which member of a group the user is, by name or id; - for none",
        )
        parser.add_argument("--start", type=_date, metavar="DATE", help="when a file without times began")
        parser.add_argument(
            "--timezone",
            type=_zone,
            default="UTC",
            metavar="NAME",
            help="where the phone was whose WhatsApp or KakaoTalk chat it is, such as Europe/Berlin; else UTC",
        )
        parser.add_argument(
            "--dates",
            choices=("dmy", "mdy", "ymd", "ydm"),
            default="",
            help="the order of day, month and year in a WhatsApp chat that does not show it",
        )
        parser.add_argument(
            "--chat",
            type=utf8,
            action="append",
            default=[],
            metavar="NAME",
            help="only this chat of a file with several, by name or id; --dry-run lists them; may be repeated",
        )
        parser.add_argument(
            "--project", type=project, default="", metavar="NAME", help="the project or place that it belongs to"
        )
        parser.add_argument("--since", type=_date, metavar="DATE", help="only messages from this time on")
        parser.add_argument("--until", type=_date, metavar="DATE", help="only messages before this time")
        parser.add_argument("--any-dates", action="store_true", help="also take dates before 1970 or after next year")
        parser.add_argument("--dry-run", action="store_true", help="print what would happen and change nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, path: Path, user: str, format: str, dry_run: bool, **options: Any) -> None:
        user = user.strip()
        if len(user) > 200 or not user.isprintable():
            raise CommandError(_("A chat user's name is at most 200 characters in one line."))
        if not dry_run:
            known = ChatUser.objects.filter(name=user).values_list("pk", flat=True)
            entries.begin_command("import_chat", Deed.CHANGE, known.first())
        hints = Hints(
            user,
            options["me"],
            options["start"],
            options["any_dates"],
            zone=options["timezone"],
            dates=options["dates"],
            chats=frozenset(name.strip().casefold() for name in options["chat"]),
            since=options["since"],
            until=options["until"],
        )
        if not dry_run and self._restore(path, user, as_json=options["json"]):
            return
        try:
            chat = self._open(path, format, hints, may_ask=not options["json"])
            with looking(Sight(None, options["project"])):
                imported, brought = _import(chat, user, dry_run, ProgressLines(self.stderr.write))
        except (UnreadableFile, BeingErased, QuotaReached) as error:
            raise CommandError(error) from None
        if imported.note:
            self.stderr.write(imported.note)
        chats = chat.chats() if dry_run else []
        if options["json"]:
            found = {**_document(imported, brought), **({"chats": [asdict(each) for each in chats]} if chats else {})}
            self.stdout.write(json.dumps(found, ensure_ascii=False))
        else:
            self._print(imported, brought, dry_run)
            for each in chats:
                last = each.last[:10]
                self.stdout.write(f"{last:10}  {each.count:>9,}  {each.kind:18}  {each.name or '–'} ({each.id})")
        if not imported.users and not brought.users:
            raise CommandError(_nothing_sentence(path, imported, brought))

    def _restore(self, path: Path, user: str, *, as_json: bool) -> bool:
        """Restores an exported memory; returns whether it did. A memory that is not empty gets only the messages."""
        try:
            if not transfer.recognises(path):
                return False
            restored = transfer.restore(path, user)
        except transfer.NotEmpty as error:
            self.stderr.write(_("%(why)s The messages of the file are imported.") % {"why": error})
            return False
        except (UnreadableFile, BeingErased) as error:
            raise CommandError(error) from None
        added = restored.counts.get("message", 0)
        if restored.missing_files:
            self.stderr.write(_("Files whose bytes are not here: %(count)s.") % {"count": restored.missing_files})
        if as_json:
            found = {"users": [restored.user], "messages_added": added, "messages_skipped": 0, "rejected": []}
            self.stdout.write(json.dumps({**found, "restored": restored.counts}, ensure_ascii=False))
        else:
            self.stdout.write(
                _("%(user)s is restored: %(rows)s.")
                % {
                    "user": restored.user,
                    "rows": ", ".join(f"{n:,} {kind}" for kind, n in restored.counts.items() if n),
                }
            )
        return True

    def _open(self, path: Path, format: str, hints: Hints, *, may_ask: bool) -> ChatFile:
        """Returns the opened file; asks a person at a terminal which member of a group is the user."""
        try:
            return open_chat(path, format, hints)
        except UnknownSpeaker as error:
            if not may_ask or hints.me or not sys.stdin.isatty():
                raise
            self.stderr.write(str(error))
            return open_chat(path, format, replace(hints, me=input(_("Who is the user? ")).strip() or NOBODY))

    def _print(self, imported: Imported, brought: DistilledCounts, dry_run: bool) -> None:
        if users := _users(imported, brought):
            form = _("%(users)s: %(added)s would be added, %(skipped)s are there already.")
            if not dry_run:
                form = _("%(users)s: %(added)s added, %(skipped)s were there already.")
            given = {"users": ", ".join(users), "added": imported.added, "skipped": imported.skipped}
            self.stdout.write(form % given)
        if brought.new:
            form = _("Also new: %(rows)s.") if dry_run else _("Also added: %(rows)s.")
            self.stdout.write(form % {"rows": ", ".join(f"{n:,} {kind}" for kind, n in brought.new.items())})
        for reason, count in (Counter(imported.left_out) + brought.left_out).most_common():
            self.stdout.write(_("Left out: %(count)s (%(reason)s).") % {"count": f"{count:,}", "reason": reason})
        if imported.changed.count:
            self.stderr.write(_changed_sentence(imported))
        imported.rejected.join(brought.refused)
        self._print_rejected(imported.rejected)

    def _print_rejected(self, rejected: NamedMessages) -> None:
        """A line for each reason: a file may give one for every message."""
        places: dict[str, list[str]] = defaultdict(list)
        for item in rejected.items:
            places[item.reason].append(f"line {item.line}" if isinstance(item.line, int) else item.line)
        shown = dict(islice(places.items(), MOST_SHOWN))
        for reason, named in shown.items():
            self.stderr.write(f"{_listed(named)}: {reason}")
        more = rejected.count - sum(map(len, shown.values()))
        if more > 0:
            self.stderr.write(
                ngettext("%(more)s more was rejected.", "%(more)s more were rejected.", more) % {"more": more}
            )


def _import(chat: ChatFile, user: str, dry_run: bool, report: Report) -> tuple[Imported, DistilledCounts]:
    """Returns the results for the messages, and for what another program had made from them."""
    addressee, _note = addressee_of(chat, user)
    if dry_run:
        return import_chat(chat, user, dry_run=True, report=report), distilled.rehearse(chat, addressee)
    key = uuid4()
    with distilled.one_transaction(chat, addressee) as opened:
        imported = import_chat(chat, user, key=key, report=report, opened=opened)
        batch = partial(batch_of, key=key, source=chat.path.name, format=chat.format)
        return imported, distilled.store(chat, addressee, lambda owner: batch(owner)[0], actor=ACTOR)


def _listed(places: Sequence[str]) -> str:
    if len(places) <= MOST_PLACES:
        return "; ".join(places)
    more = len(places) - MOST_PLACES
    form = ngettext("%(places)s and %(more)s more", "%(places)s and %(more)s more", more)
    return form % {"places": "; ".join(places[:MOST_PLACES]), "more": f"{more:,}"}


def _date(text: str) -> datetime:
    try:
        return moment(text)
    except BadRecord as error:
        raise ArgumentTypeError(str(error)) from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # A folder of zones ("America") raises OSError, a path outside of the zones ValueError.
        raise ArgumentTypeError(_("There is no time zone %(name)s.") % {"name": name}) from None


def _changed_sentence(imported: Imported) -> str:
    ids = [item.known_id for item in imported.changed.items[:MOST_SHOWN]]
    return ngettext(
        "%(count)s message was edited since it was imported; the memory keeps the text it has: %(ids)s",
        "%(count)s messages were edited since they were imported; the memory keeps the texts it has: %(ids)s",
        imported.changed.count,
    ) % {"count": imported.changed.count, "ids": ", ".join(ids) + ("…" if imported.changed.count > len(ids) else "")}


def _users(imported: Imported, brought: DistilledCounts) -> list[str]:
    """Returns the chat users of whom the file has messages, facts or others, each once."""
    return list(dict.fromkeys((*imported.users, *brought.users)))


def _nothing_sentence(path: Path, imported: Imported, brought: DistilledCounts) -> str:
    sentence = _("No message could be read from %(path)s.") % {"path": path}
    first = (*imported.rejected.items[:1], *brought.refused.items[:1])
    if first:
        return f"{sentence} {first[0].line}: {first[0].reason}."
    left = Counter(imported.left_out) + brought.left_out
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in left.most_common())
    return f"{sentence} {_('Left out: %(reasons)s.') % {'reasons': reasons}}" if reasons else sentence


def _document(imported: Imported, brought: DistilledCounts) -> dict[str, Any]:
    # What had been made from the messages, by kind.
    rest = {
        "brought": dict(brought.new),
        "brought_before": dict(brought.known),
        "not_brought": [{"line": item.line, "reason": item.reason} for item in brought.refused.items],
        "not_brought_left_out": dict(brought.left_out),
    }
    return {
        "users": _users(imported, brought),
        "messages_in_file": imported.total,
        "messages_added": imported.added,
        "messages_skipped": imported.skipped,
        "messages_rejected": imported.rejected.count,
        "rejected": [{"line": item.line, "reason": item.reason} for item in imported.rejected.items],
        "messages_changed": imported.changed.count,
        "changed": [item.known_id for item in imported.changed.items],
        "messages_left_out": sum(imported.left_out.values()),
        "left_out": dict(imported.left_out),
        **(rest if brought.users or brought.refused.count or brought.left_out else {}),
    }
