"""What the commands share: how they answer and refuse, and arguments, of which a wrong value is reported in one
sentence."""

import json
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from memoryapp.engine.cells import enter
from memoryapp.engine.sight import as_project
from memoryapp.models import ChatUser, Run
from memoryapp.models.audit import Deed
from memoryapp.platform import cells
from memoryapp.platform.audit import entries
from memoryapp.runs import lifecycle


class MemoryCommand(BaseCommand):
    """Prints words or, with ``--json``, one document. Its ``refusals`` are exceptions with a sentence for people."""

    refusals: tuple[type[Exception], ...] = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except self.refusals as error:
            raise CommandError(str(error)) from error

    def answer(self, document: Any, *lines: str, as_json: bool) -> None:
        for line in (json.dumps(document, ensure_ascii=False),) if as_json else lines:
            self.stdout.write(line)


def utf8(argument: str) -> str:
    """Returns an argument that is not a path. Bytes that are not UTF-8 arrive as surrogates, which cannot be stored."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError(_("%(value)s is not UTF-8 text") % {"value": repr(argument)}) from None
    return argument


def project(argument: str) -> str:
    """Returns the label of a project."""
    try:
        return as_project(utf8(argument))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def named_user(name: str, command: str = "", deed: Deed = Deed.READ) -> ChatUser:
    """Returns the chat user of that name. Raises CommandError, which lists known names, if there is none. The audit log
    has what a ``command`` does with a memory."""
    owner = ChatUser.objects.filter(name=name).first()
    if owner:
        enter(owner.cell)
        if command:
            entries.begin_command(command, deed, owner.pk)
        return owner
    known = list(ChatUser.objects.values_list("name", flat=True)[:10])
    there = f"There are: {', '.join(known)}." if known else "There is none yet; import a chat first."
    raise CommandError(f"There is no chat user “{name}”. {there}")


def run_named(run: str, command: str, deed: Deed = Deed.READ) -> Run:
    """Returns the run of that id, with its owner. Raises CommandError if there is none."""
    try:
        found = cells.first(Run.objects.select_related("owner").filter(pk=UUID(run)), UUID(run))
    except ValueError:
        found = None
    if found is None:
        raise CommandError(f"There is no run “{run[:60]}”; an id is such as 8f3c1b0e-3a77-4a5e-9d0c-6f6f0a0b7c11.")
    entries.begin_command(command, deed, found.owner_id)
    return found


def settings_given(pairs: Sequence[str]) -> dict[str, str]:
    """Returns ``["max_topics=5"]`` as a dict."""
    given = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise CommandError(f"--set takes KEY=VALUE, not “{pair}”.")
        given[name.strip()] = value.strip()
    return given


async def waited_for(run: Run) -> Run:
    """Returns the run at its end. Raises CommandError where another process works on it for too long."""
    try:
        await lifecycle.wait_for_end(run)
    except TimeoutError:
        raise CommandError(f"Another process works on run {run.pk} and has not ended it; look at it later.") from None
    return run
