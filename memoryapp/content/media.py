"""Files that were sent with queries: stored once under their hash, and given only to their owner's runs.

In a run or an event a ``MediaItem`` only names the file. The hash of the bytes is checked when they are read, so a
model never gets other bytes than those that were sent.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction

from memoryapp import models
from memoryapp.engine.chat.media import MediaContent, MediaError
from memoryapp.engine.events import MediaItem
from memoryapp.engine.notes import Note
from memoryapp.importers.record import clean
from memoryapp.models import ChatUser
from memoryapp.operations import advisory_locks
from memoryapp.operations.database import in_thread


def store(owner: ChatUser, media: MediaContent) -> MediaItem:
    """Stores the bytes for this owner, once even if they are sent again; returns the item that names them."""
    item = replace(media.item, name=str(clean(media.item.name)))
    row = models.Media(
        owner=owner,
        sha256=item.sha256,
        type=item.type,
        mime_type=item.mime_type,
        name=item.name,
        size_bytes=item.size_bytes,
    )
    with transaction.atomic():
        # An erasure that deletes the last row for these bytes deletes the file too.
        advisory_locks.acquire_until_commit(row.path, 0)
        if not _is_stored(row):
            default_storage.save(row.path, ContentFile(media.content))
        # The file comes first: a row must never name bytes that are not there.
        models.Media.objects.bulk_create([row], ignore_conflicts=True)
    return item


def _is_stored(row: models.Media) -> bool:
    try:
        return default_storage.size(row.path) == row.size_bytes
    except FileNotFoundError:
        return False


async def load(owner_id: int, item: MediaItem) -> MediaContent:
    """Returns the item with its bytes. Raises MediaError when this owner has none, or when they are not those that were
    sent."""
    return await in_thread(read, owner_id, item)


def read(owner_id: int, item: MediaItem) -> MediaContent:
    """``load`` for code without an event loop."""
    named = {"hash": item.sha256[:12]}
    row = models.Media.objects.filter(owner=owner_id, sha256=item.sha256).first()
    if row is None:
        raise MediaError(Note("media_missing", named))
    try:
        with default_storage.open(row.path) as file:
            content = file.read()
    except OSError as error:
        raise MediaError(Note("media_unreadable", {**named, "error": error.strerror})) from error
    if hashlib.sha256(content).hexdigest() != item.sha256:
        raise MediaError(Note("media_changed", named))
    return MediaContent(item, content)
