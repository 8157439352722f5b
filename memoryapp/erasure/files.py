"""Files of the data folder that quote erased words: lines of logs are blanked, files waiting for import are removed.

Processes may be writing to a log meanwhile, so a line keeps its length and the file its position; a packed log is
written again. The database's own files are not text and are not touched.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db.models import QuerySet

from memoryapp.embedded import paths
from memoryapp.erasure.marks import Marks
from memoryapp.models import ImportFile
from memoryapp.transfer import files

_BLANK = b"*"


def blank_logs(marks: Marks) -> int:
    """Blanks every line of a log that quotes erased words; returns how many files were changed."""
    return sum(_blanked(path, marks) for path in logs())


def discardable(owner: int) -> QuerySet[ImportFile]:
    """The owner's uploaded chat files, imported or waiting for it, without those that are just being read."""
    states = ImportFile.State
    return ImportFile.objects.filter(owner=owner).exclude(state__in=(states.REHEARSING, states.IMPORTING))


def discard_imports(owner: int) -> int:
    """Removes the owner's chat files; one that is just being read is left to a later check.

    They are in formats of other programs and may be packed, so they are not searched for words.
    """
    rows = list(discardable(owner))
    for row in rows:
        files.discard(row)
    return len(rows)


def logs() -> Iterator[Path]:
    """Yields the logs in the data folder, and those beside an embedded database in another folder, packed ones too."""
    cluster = paths.cluster(settings.DATA_DIR)
    for top in dict.fromkeys((settings.DATA_DIR, cluster.base)):
        for folder, inner, names in os.walk(top):
            inner[:] = [name for name in inner if Path(folder, name) != cluster.data]
            yield from (Path(folder, name) for name in sorted(names) if _is_log(name))


def _is_log(name: str) -> bool:
    return name.removesuffix(".gz").rstrip("0123456789.").endswith(".log") or ".log." in name


def _blanked(path: Path, marks: Marks) -> bool:
    try:
        return _packed(path, marks) if path.suffix == ".gz" else _plain(path, marks)
    except FileNotFoundError:
        # A log that is rotated meanwhile is found under its other name by the next check.
        return False


def _plain(path: Path, marks: Marks) -> bool:
    changed = False
    with path.open("r+b") as file:
        at = 0
        while line := file.readline():
            if marks.quoted(line.decode("utf-8", "replace")):
                file.seek(at)
                file.write(_blank(line))
                changed = True
            at += len(line)
            file.seek(at)
    return changed


def _packed(path: Path, marks: Marks) -> bool:
    with gzip.open(path, "rb") as file:
        lines = list(file)
    new = [_blank(line) if marks.quoted(line.decode("utf-8", "replace")) else line for line in lines]
    if new == lines:
        return False
    draft = path.with_name(f".{path.name}.new")
    with gzip.open(draft, "wb") as file:
        file.writelines(new)
    draft.replace(path)
    return True


def _blank(line: bytes) -> bytes:
    return _BLANK * len(line.rstrip(b"\r\n")) + line[len(line.rstrip(b"\r\n")) :]
