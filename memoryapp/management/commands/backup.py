"""``manage.py backup FILE``: everything of this installation in one file, while it runs."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryapp.platform.embedded import backups


class Command(BaseCommand):
    help = "Writes the whole database and all files into one file, also while the program runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the file to write")
        parser.add_argument("--data-dir", metavar="DIR", help="the folder of the data")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        target = Path(file).resolve()
        try:
            made = backups.shown(backups.back_up(target), target)
        except backups.BackupError as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps(made))
        else:
            self.stdout.write(
                f"{target}: {made['bytes']:,} bytes, with {made['files']:,} files; it was read back whole."
            )
