"""``undo_night NAME [--night DATE] [--extraction]``: undoes what the program merged, or extracted, by itself in a
night."""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from memoryapp.curation import MERGER, CurationError, history
from memoryapp.management.arguments import MemoryCommand, named_user, utf8
from memoryapp.models.audit import Deed

ACTOR = "command line"


class Command(MemoryCommand):
    help = "Undoes all that the program merged, or extracted, by itself in a night, from noon to noon: all or nothing."
    refusals = (CurationError,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", type=utf8, metavar="NAME", help="the chat user")
        parser.add_argument(
            "--night", metavar="DATE", help="the day on whose noon it began, such as 2026-03-02; else the latest"
        )
        parser.add_argument("--extraction", action="store_true", help="facts and people, instead of merged topics")

    def handle(self, *args: Any, name: str, night: str | None, **options: Any) -> None:
        owner, day = named_user(name, "undo_night", Deed.CHANGE), _day(night) if night else None
        found = history.night_of(owner, day, history.EXTRACTOR if options["extraction"] else MERGER)
        made, night = history.undo_night(owner, found, actor=ACTOR), found.day.isoformat()
        form, counted = _("Undone: %(n)s merges of the night of %(day)s."), "merges"
        if options["extraction"]:
            form, counted = _("Undone: %(n)s extracted changes of the night of %(day)s."), "changes"
        report = {"night": night, counted: found.count}
        self.answer(report, form % {"n": len(made), "day": night}, as_json=options["json"])


def _day(written: str) -> date:
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise CommandError(_("--night takes a day such as 2026-03-02, not %(what)s.") % {"what": written}) from None
