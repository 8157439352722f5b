"""``manage.py restore FILE``: fills an empty data folder from a backup."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from memoryapp.management.arguments import MemoryCommand
from memoryapp.platform.embedded import backups, paths


class Command(MemoryCommand):
    help = "Restores a backup into an empty data folder, or an empty database of your own."
    refusals = (backups.BackupError,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="a file that backup wrote")
        parser.add_argument("--data-dir", metavar="DIR", help="the folder of the data, which may be missing yet")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        source = Path(file).resolve()
        restored, program = backups.shown(backups.restore(source), source), paths.program(settings.DATA_DIR)
        words = f"Restored, with {restored['files']:,} files. Start it with `{program} up`."
        self.answer(restored, words, as_json=options["json"])
