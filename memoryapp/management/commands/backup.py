"""``manage.py backup FILE``: everything of this installation in one file, while it runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from memoryapp.management.arguments import MemoryCommand
from memoryapp.platform.embedded import backups


class Command(MemoryCommand):
    help = "Writes the whole database and all files into one file, also while the program runs."
    refusals = (backups.BackupError,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the file to write")
        parser.add_argument("--data-dir", metavar="DIR", help="the folder of the data")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        target = Path(file).resolve()
        made = backups.shown(backups.back_up(target), target)
        words = f"{target}: {made['bytes']:,} bytes, with {made['files']:,} files; it was read back whole."
        self.answer(made, words, as_json=options["json"])
