"""File storage that writes a file completely or not at all.

Files are named by their hash, so a file of the same name has the same bytes and is replaced; a new file never gets
another name.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from django.core.files.base import File
from django.core.files.storage import FileSystemStorage


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
