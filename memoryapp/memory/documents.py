"""Reads the text of files in a separate process.

In: the bytes of a text, PDF or Word file. Out: its text, within bounds, or a sentence that says why there is none. A
file may be malicious, so the libraries that open it run in a child process with limits on memory and time (``child``),
which ``reading`` starts. It imports nothing from the rest of the memory."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from django.db.models import Q

from memoryapp.engine.notes import Note, NotedError

# Reads the text of a file in a child process, whose failure does no harm here.

SECONDS = 90.0
_ROOT = Path(__file__).resolve().parent.parent.parent
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_BY_MIME: Mapping[str, str] = {"application/pdf": "pdf", _DOCX: "docx"}
_BY_SUFFIX: Mapping[str, str] = {".pdf": "pdf", ".docx": "docx", ".txt": "text", ".md": "text", ".markdown": "text"}


class Unreadable(NotedError):
    """The file has no readable text, and trying again would not help; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a file; ``is_cut`` if the file has more. ``pages`` is 0 if its format has none."""

    text: str
    pages: int
    is_cut: bool


def kind_of(name: str, mime_type: str) -> str | None:
    """Returns how to read the file: text, pdf or docx; None if it cannot be read."""
    suffix = Path(name.lower()).suffix
    return _BY_MIME.get(mime_type) or _BY_SUFFIX.get(suffix) or ("text" if mime_type.startswith("text/") else None)


def readable() -> Q:
    """Selects rows whose ``name`` and ``mime_type`` are known to ``kind_of``."""
    by_mime = Q(mime_type__in=_BY_MIME) | Q(mime_type__startswith="text/")
    return reduce(or_, (Q(name__iendswith=suffix) for suffix in _BY_SUFFIX), by_mime)


def read(content: bytes, kind: str) -> DocumentText:
    """Returns the text of the file. Raises Unreadable."""
    command = [sys.executable, "-m", "memoryapp.memory.document_child", kind]
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=SECONDS, cwd=_ROOT, check=True)
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError, ValueError):
        found = {"fault": "limits"}
    fault = found.get("fault") or ("" if found["text"].strip() else "empty")
    if fault:
        raise Unreadable(Note(f"file_{fault}"))
    return DocumentText(found["text"], found["pages"], found["is_cut"])
