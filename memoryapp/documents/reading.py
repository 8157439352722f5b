"""The text of a file, from a child process that may fail in any way without harm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

SECONDS = 90.0
_ROOT = Path(__file__).resolve().parent.parent.parent
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_BY_MIME: Mapping[str, str] = {"application/pdf": "pdf", _DOCX: "docx"}
_BY_SUFFIX: Mapping[str, str] = {".pdf": "pdf", ".docx": "docx", ".txt": "text", ".md": "text", ".markdown": "text"}
_FAULTS: Mapping[str, str] = {
    "encrypted": gettext_noop("The file is protected by a password. Remove it and send the file again."),
    "malformed": gettext_noop("The file is damaged, or is not what its name says."),
    "bomb": gettext_noop("The file would become far too large when unpacked."),
    "limits": gettext_noop("Reading the file took too much time or memory."),
    "empty": gettext_noop("There is no text in the file; it may be scanned pages."),
}


class Unreadable(Exception):
    """The file has no text that could be read, today or later; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a file; ``is_cut`` where it has more. ``pages`` is 0 where its format has none."""

    text: str
    pages: int
    is_cut: bool


def kind_of(name: str, mime_type: str) -> str | None:
    """How the file is read: text, pdf or docx; None for one that cannot be."""
    suffix = Path(name.lower()).suffix
    return _BY_MIME.get(mime_type) or _BY_SUFFIX.get(suffix) or ("text" if mime_type.startswith("text/") else None)


def readable() -> Q:
    """Rows with ``name`` and ``mime_type`` of files that ``kind_of`` knows."""
    by_mime = Q(mime_type__in=_BY_MIME) | Q(mime_type__startswith="text/")
    return reduce(or_, (Q(name__iendswith=suffix) for suffix in _BY_SUFFIX), by_mime)


def read(content: bytes, kind: str) -> DocumentText:
    """The text of the file. Raises Unreadable."""
    command = [sys.executable, "-m", "memoryapp.documents.child", kind]
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=SECONDS, cwd=_ROOT, check=True)
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError, ValueError):
        found = {"fault": "limits"}
    fault = found.get("fault") or ("" if found["text"].strip() else "empty")
    if fault:
        raise Unreadable(_(_FAULTS[fault]))
    return DocumentText(found["text"], found["pages"], found["is_cut"])
