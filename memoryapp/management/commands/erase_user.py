"""``erase_user NAME [--yes]``: erases a chat user with all their data and prints how much was erased."""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from memoryapp import erasure
from memoryapp.engine.cells import enter
from memoryapp.erasure import NothingToErase, Target, holding
from memoryapp.management.arguments import MemoryCommand, named_user, project, utf8
from memoryapp.memory import content
from memoryapp.models import ChatUser
from memoryapp.models.audit import Deed
from memoryapp.platform.audit import entries

ACTOR = "command line"


class Command(MemoryCommand):
    help = "Erases a chat user with all rows and files, for good. Continues an erasure that was interrupted."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", type=utf8, metavar="NAME", help="the chat user")
        parser.add_argument("--project", type=project, default="", metavar="NAME", help="only what has this label")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, name: str, yes: bool, **options: Any) -> None:
        owner = content.being_erased(name) or named_user(name)
        enter(owner.cell)
        if not yes and owner.erasing_since is None:
            self._ask(owner, options["project"])
        entries.begin_command("erase_user", Deed.ERASE, owner.pk)
        try:
            target = Target.of_project(owner, options["project"]) if options["project"] else None
            begun = erasure.begin(target, ACTOR) if target else erasure.begin_user(owner, ACTOR)
        except NothingToErase as error:
            raise CommandError(error) from None
        receipt = erasure.finish(begun)
        if receipt.ended_at is None:
            raise CommandError(_("Another process is erasing this chat user and has not ended; run this again later."))
        lines = [f"{table}: {count:,}" for table, count in sorted(receipt.counts.items())]
        form = _("Erased; the receipt is number %(number)s: verify_erasure %(number)s looks for what is left.")
        report = {"receipt": receipt.pk, **receipt.counts}
        self.answer(report, *lines, form % {"number": receipt.pk}, as_json=options["json"])

    def _ask(self, owner: ChatUser, project: str) -> None:
        held = {"messages": len(Target.of_project(owner, project).messages)} if project else asdict(holding(owner))
        for noun, count in held.items():
            self.stderr.write(f"{noun}: {count:,}")
        self.stderr.write(_("All of this will be erased for good. Type the name of the chat user to confirm:"))
        try:
            typed = input()
        except EOFError:
            raise CommandError(_("There is nobody to confirm; pass --yes to erase without confirmation.")) from None
        if typed.strip() != owner.name:
            raise CommandError(_("That is not the name; nothing was erased."))
