"""Makes documents in the zip of a chat artifacts of the messages to which they were attached.

A message refers to them by a path in its metadata, or by a mark at the beginning of its text (in WhatsApp's format).
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from memoryapp.artifacts import arrival
from memoryapp.documents import reading
from memoryapp.importers import ChatFile, MessageRecord
from memoryapp.ingestion.imports import Addressee
from memoryapp.models import Message

# Bytes of one document; a larger one is left in its zip.
MOST_BYTES = 20_000_000

_MARK = re.compile(r"\[file: ([^\]\n]{1,200})\]")
_FIELDS = ("file", "photo")


def take(path: Path, chat: ChatFile, addressee: Addressee) -> int:
    """Returns the number of new artifacts; skips files that are artifacts already or whose artifact was deleted."""
    if not zipfile.is_zipfile(path):
        return 0
    made = 0
    with zipfile.ZipFile(path) as archive:
        beside = _by_name(archive)
        for record in chat.records() if beside else ():
            if isinstance(record, MessageRecord) and (name := addressee(record.user)):
                made += sum(_put(archive, info, record, name) for info in _files(record, beside))
    return made


def _by_name(archive: zipfile.ZipFile) -> dict[str, list[zipfile.ZipInfo]]:
    """Returns the documents that can be read, by the last part of their path."""
    found: dict[str, list[zipfile.ZipInfo]] = {}
    for info in archive.infolist():
        name = info.filename.rpartition("/")[2]
        if info.file_size <= MOST_BYTES and reading.kind_of(name, ""):
            found.setdefault(name, []).append(info)
    return found


def _files(record: MessageRecord, beside: Mapping[str, list[zipfile.ZipInfo]]) -> Iterator[zipfile.ZipInfo]:
    for path in _paths(record):
        named = beside.get(path.rpartition("/")[2], ())
        yield from [info for info in named if f"/{info.filename}".endswith(f"/{path}")][:1]


def _paths(record: MessageRecord) -> Iterator[str]:
    attachments: Any = record.metadata.get("attachments")
    for item in attachments if isinstance(attachments, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("path"), str):
            yield item["path"]
    yield from (value for name in _FIELDS if isinstance(value := record.metadata.get(name), str))
    if found := _MARK.match(record.text):
        yield found[1]


def _put(archive: zipfile.ZipFile, info: zipfile.ZipInfo, record: MessageRecord, owner: str) -> bool:
    """Makes an artifact, unless the document cannot be unpacked. Returns whether it did."""
    message = Message.objects.filter(owner__name=owner, external_id=record.external_id).first()
    if message is None:
        return False
    try:
        with archive.open(info) as file:
            # The size in the zip's directory may be wrong.
            content = file.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return False
    name = info.filename.rpartition("/")[2]
    mime_type = guess_type(name)[0] or "text/plain"
    return 0 < len(content) <= MOST_BYTES and arrival.attach(message, name, mime_type, content)
