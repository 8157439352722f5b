"""``check_memory [--user NAME] [--repair]``: checks every invariant of the store; a line for each violation."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.intake.invariants import counted, violations
from memoryapp.management.arguments import MemoryCommand, named_user, utf8
from memoryapp.models import ChatUser
from memoryapp.platform import cells
from memoryapp.runs import endings


class Command(MemoryCommand):
    help = "Checks every invariant of the memory; exit code 1 if one does not hold."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", type=utf8, metavar="NAME", help="only this chat user's memory")
        parser.add_argument(
            "--repair",
            action="store_true",
            help="first end runs that lost events in a crash after their last complete event",
        )

    def handle(self, *args: Any, user: str | None, **options: Any) -> None:
        owner = None if user is None else named_user(user)
        repaired = _everywhere(endings.repair, owner) if options["repair"] else []
        found = _everywhere(violations, owner)
        checked = cells.everywhere()(counted)(owner)
        report: dict[str, Any] = {"checked": checked, "violations": [asdict(violation) for violation in found]}
        if options["repair"]:
            report["repaired"] = [{**asdict(each), "run": str(each.run)} for each in repaired]
        form = _("Run:%(run)s had lost events: it ends as crashed after event %(last)s, events removed: %(removed)s.")
        lines = [form % asdict(each) for each in repaired]
        lines += [f"{violation.subject} {violation.invariant}: {violation.sentence}" for violation in found]
        self.answer(report, *lines, as_json=options["json"])
        if found:
            form = ngettext("%(count)s violation.", "%(count)s violations.", len(found))
            raise CommandError(form % {"count": len(found)})
        if not options["json"]:
            rows = ", ".join(f"{name} {count}" for name, count in checked.items())
            self.stdout.write(_("Every invariant holds (%(rows)s).") % {"rows": rows})


def _everywhere(found: Callable[[ChatUser | None], Iterable[Any]], owner: ChatUser | None) -> list[Any]:
    rows: list[Any] = cells.everywhere()(lambda: list(found(owner)))()
    return rows
