"""File storage that writes a file completely or not at all, and the free space that stays on the disk. Files are named
by their hash, so a file of the same name has the same bytes and is replaced; a new file never gets another name."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import FileSystemStorage
from django.utils.translation import gettext as _


class NoSpace(Exception):
    """Too little of the disk is free; the text is a sentence for people."""


def check_space(folder: Path, coming: int = 0) -> None:
    """Raises NoSpace if ``coming`` more bytes would leave less than ``DISK_RESERVE_BYTES`` free on this disk."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free - coming < settings.DISK_RESERVE_BYTES:
        sentence = _(
            "The disk of this server has too little free space for it: %(free)s MB, of which %(reserve)s MB stay free "
            "(DISK_RESERVE_BYTES). Nothing is lost; remove what is not needed and try again."
        )
        numbers = {"free": f"{free // 10**6:,}", "reserve": f"{settings.DISK_RESERVE_BYTES // 10**6:,}"}
        raise NoSpace(sentence % numbers)


class WholeFiles(FileSystemStorage):
    """Django's file storage, except that a process killed while writing leaves no partial file."""

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def _save(self, name: str, content: File[bytes]) -> str:
        target = Path(self.path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=target.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(content.chunks())
                file.flush()
                os.fsync(file.fileno())
            Path(beside).replace(target)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
        return name
