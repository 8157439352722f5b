"""``move_memory NAME CELL``: moves a memory to another cell; it keeps all its addresses."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.management.arguments import MemoryCommand, named_user, utf8
from memoryapp.models.audit import Deed
from memoryapp.platform import cells


class Command(MemoryCommand):
    help = "Moves a chat user's memory to another cell."
    refusals = (cells.NotMoved,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", type=utf8, help="the chat user")
        parser.add_argument("cell", type=int, help="the number of the cell; 0 is that of the shared tables")

    def handle(self, *args: Any, name: str, cell: int, **options: Any) -> None:
        owner = named_user(name, "move_memory", Deed.CHANGE)
        cells.move(owner, cell)
        words = _("The memory of %(name)s lies in cell %(cell)s now.") % {"name": owner, "cell": cell}
        self.answer({"user": owner.name, "cell": cell}, words, as_json=options["json"])
