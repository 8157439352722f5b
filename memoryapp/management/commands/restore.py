"""``manage.py restore FILE``: fills an empty data folder from a backup."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryapp.platform.embedded import backups, paths


class Command(BaseCommand):
    help = "Restores a backup into an empty data folder, or an empty database of your own."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="a file that backup wrote")
        parser.add_argument("--data-dir", metavar="DIR", help="the folder of the data, which may be missing yet")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        source = Path(file).resolve()
        try:
            restored = backups.shown(backups.restore(source), source)
        except backups.BackupError as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps(restored))
        else:
            self.stdout.write(
                f"Restored, with {restored['files']:,} files. Start it with `{paths.program(settings.DATA_DIR)} up`."
            )
