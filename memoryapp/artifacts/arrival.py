"""Makes artifacts of bytes. For each chat user, the same bytes make one artifact."""

from __future__ import annotations

import hashlib
from functools import cache

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from memoryapp.content import media
from memoryapp.documents import reading
from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem, MediaType
from memoryapp.importers.record import clean
from memoryapp.knowledge.writing import lock
from memoryapp.models import Artifact, ChatUser, KnowledgeEdit, Message
from memoryapp.models import Media as StoredMedia
from memoryapp.operations.outages import others_go_on

_MEDIA: dict[str, MediaType] = {"image": "image", "audio": "audio"}
_KINDS = {"image": "image", "audio": "audio", "video": "video", "text": "text"}


def put(owner: ChatUser, name: str, mime_type: str, content: bytes) -> tuple[Artifact, bool]:
    """Stores the bytes. Returns their artifact, and whether it is new."""
    kind = _MEDIA.get(mime_type.partition("/")[0], "file")
    item = MediaItem(hashlib.sha256(content).hexdigest(), kind, mime_type[:100], name[:300], len(content))
    media.store(owner, MediaContent(item, content))
    return _put(owner, item.sha256, name, mime_type, len(content))


def attach(message: Message, name: str, mime_type: str, content: bytes) -> bool:
    """Makes an artifact of bytes that came with the message, unless it exists or a person deleted it."""
    if hashlib.sha256(content).hexdigest() in _deleted(message.owner_id):
        return False
    artifact, is_new = put(message.owner, name, mime_type, content)
    if is_new:
        Artifact.objects.filter(pk=artifact.pk).update(message=message, created_at=message.sent_at)
    return is_new


def take_in(owner: ChatUser | None = None) -> int:
    """Makes artifacts of the readable files that came with queries and have none yet. Returns how many.

    Artifacts that a person deleted are not made again.
    """
    has_one = Artifact.objects.filter(owner=OuterRef("owner"), sha256=OuterRef("sha256"))
    rows = StoredMedia.objects.filter(~Exists(has_one), reading.readable(), owner__erasing_since__isnull=True)
    rows = rows if owner is None else rows.filter(owner=owner)
    made, deleted = 0, cache(_deleted)
    for row in rows.select_related("owner").order_by("pk").iterator():
        if row.sha256 in deleted(row.owner_id):
            continue
        with others_go_on("Media %s did not become an artifact.", row.pk):
            made += _put(row.owner, row.sha256, row.name or row.sha256[:12], row.mime_type, row.size_bytes)[1]
    return made


@transaction.atomic
def _put(owner: ChatUser, sha256: str, name: str, mime_type: str, size: int) -> tuple[Artifact, bool]:
    lock(owner)
    return Artifact.objects.get_or_create(
        owner=owner,
        sha256=sha256,
        defaults={
            "name": str(clean(name))[:300],
            "mime_type": mime_type[:100],
            "file_type": "pdf"
            if mime_type == "application/pdf"
            else _KINDS.get(mime_type.partition("/")[0], "document"),
            "size_bytes": size,
            "created_at": timezone.now(),
        },
    )


def _deleted(owner_id: int) -> set[str]:
    """The hashes of files whose artifacts people deleted."""
    edits = KnowledgeEdit.objects.filter(
        owner=owner_id, noun=KnowledgeEdit.Noun.ARTIFACT, kind=KnowledgeEdit.Kind.DELETE
    )
    return {values["sha256"] for before in edits.values_list("before", flat=True) for values in before.values()}
