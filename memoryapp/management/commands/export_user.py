"""``export_user NAME FILE``: writes a memory as JSON Lines, which ``import_chat`` restores."""

import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.intake import transfer
from memoryapp.management.arguments import MemoryCommand, named_user, project, utf8
from memoryapp.models.audit import Deed


class Command(MemoryCommand):
    help = "Writes everything a chat user's memory holds into a file, or to standard output where FILE is -."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", type=utf8, metavar="NAME", help="the chat user")
        parser.add_argument("file", metavar="FILE", help="the file to write, or -")
        parser.add_argument("--project", type=project, default="", metavar="NAME", help="only what has this label")

    def handle(self, *args: Any, name: str, file: str, **options: Any) -> None:
        owner = named_user(name, "export_user", Deed.EXPORT)
        lines = transfer.lines(owner, options["project"])
        if file == "-":
            _write(lines, sys.stdout)
            return
        try:
            count = _stored(lines, Path(file).resolve())
        except OSError as error:
            sentence = _("%(path)s cannot be written: %(error)s.") % {"path": file, "error": error.strerror}
            raise CommandError(sentence) from error
        form = ngettext("%(count)s line written to %(path)s.", "%(count)s lines written to %(path)s.", count)
        words = form % {"count": f"{count:,}", "path": file}
        self.answer({"user": owner.name, "lines": count}, words, as_json=options["json"])


def _stored(lines: Iterator[str], path: Path) -> int:
    """Returns the number of lines. A file appears when it is complete; a pipe or device is written to directly."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as device:
            return _write(lines, device)
    return _whole(lines, path)


def _whole(lines: Iterator[str], path: Path) -> int:
    """Writes a temporary file first, which only its owner may read, and renames it."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}-", delete=False
    ) as draft:
        try:
            count = _write(lines, draft)
            os.replace(draft.name, path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise
    return count


def _write(lines: Iterator[str], file: IO[str] | Any) -> int:
    count = 0
    for line in lines:
        file.write(line)
        count += 1
    file.flush()
    return count
