"""``undo_night NAME [--night DATE] [--extraction]``: undoes what the program merged, or extracted, by itself in a
night."""

import json
from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from memoryapp.curation import MERGER, CurationError, history
from memoryapp.management.arguments import named_user, utf8
from memoryapp.models.audit import Deed

ACTOR = "command line"


class Command(BaseCommand):
    help = "Undoes all that the program merged, or extracted, by itself in a night, from noon to noon: all or nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", type=utf8, metavar="NAME", help="the chat user")
        parser.add_argument(
            "--night", metavar="DATE", help="the day on whose noon it began, such as 2026-03-02; else the latest"
        )
        parser.add_argument("--extraction", action="store_true", help="facts and people, instead of merged topics")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, name: str, night: str | None, **options: Any) -> None:
        owner, day = named_user(name, "undo_night", Deed.CHANGE), _day(night) if night else None
        try:
            found = history.night_of(owner, day, history.EXTRACTOR if options["extraction"] else MERGER)
            made = history.undo_night(owner, found, actor=ACTOR)
        except CurationError as error:
            raise CommandError(error) from None
        if options["json"]:
            counted = "changes" if options["extraction"] else "merges"
            self.stdout.write(json.dumps({"night": found.day.isoformat(), counted: found.count}))
            return
        form = _("Undone: %(n)s merges of the night of %(day)s.")
        if options["extraction"]:
            form = _("Undone: %(n)s extracted changes of the night of %(day)s.")
        self.stdout.write(form % {"n": len(made), "day": found.day.isoformat()})


def _day(written: str) -> date:
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise CommandError(_("--night takes a day such as 2026-03-02, not %(what)s.") % {"what": written}) from None
