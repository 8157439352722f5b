"""Messages as a conversation: replies, attachments, and who continues speaking. Two queries a page."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from django.utils.timezone import localdate

from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem
from memoryapp.models import Artifact, Message

SAME_BREATH = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as the import described it; ``artifact`` when it was kept as one."""

    name: str
    kind: str
    artifact: Artifact | None = None


def talk_of(messages: Sequence[Message], *, here: int | None = None) -> list[dict[str, Any]]:
    """``messages`` are of one chat user, oldest first; ``here`` is the id of the one pointed at. One ``continues`` when
    the same person wrote the one just before, on the same day."""
    answered, artifacts = _answered(messages), _artifacts(messages)
    talk: list[dict[str, Any]] = []
    before: Message | None = None
    for message in messages:
        begins_day = before is None or localdate(before.sent_at) != localdate(message.sent_at)
        begins_topic = before is None or _place(before) != _place(message)
        talk.append(
            {
                "message": message,
                "answered": answered.get(message.reply_to),
                "attachments": _attachments(message, artifacts.get(message.pk, [])),
                "continues": not begins_day and not begins_topic and _same_breath(before, message),
                "begins_day": begins_day,
                "begins_topic": begins_topic,
                "is_here": message.pk == here,
            }
        )
        before = message
    return talk


def _place(message: Message) -> tuple[int | None, bool]:
    return message.topic_id, message.is_withdrawn


def _same_breath(before: Message | None, message: Message) -> bool:
    return (
        before is not None
        and (before.role, before.author) == (message.role, message.author)
        and message.sent_at - before.sent_at <= SAME_BREATH
        and not message.reply_to
        and not message.forwarded_from
    )


def _answered(messages: Sequence[Message]) -> dict[str, Message]:
    wanted = {message.reply_to for message in messages if message.reply_to}
    if not wanted:
        return {}
    found = Message.objects.of(messages[0].owner_id).filter(external_id__in=wanted)
    return {message.external_id: message for message in found}


def _artifacts(messages: Sequence[Message]) -> dict[int, list[Artifact]]:
    if not messages:
        return {}
    found: dict[int, list[Artifact]] = defaultdict(list)
    ids = [message.pk for message in messages]
    for artifact in Artifact.objects.filter(owner=messages[0].owner_id, message__in=ids).order_by("id"):
        found[artifact.message_id or 0].append(artifact)
    return found


def _attachments(message: Message, artifacts: Sequence[Artifact]) -> list[Attachment]:
    kept = [Attachment(artifact.name, artifact.mime_type, artifact) for artifact in artifacts]
    listed = message.metadata.get("attachments") if isinstance(message.metadata, Mapping) else None
    names = {artifact.name for artifact in artifacts}
    return kept + [file for file in map(_listed, listed if isinstance(listed, list) else []) if file.name not in names]


def _listed(item: Any) -> Attachment:
    if not isinstance(item, Mapping):
        return Attachment(str(item), "")
    return Attachment(str(item.get("name") or item.get("mime") or "?"), str(item.get("mime") or ""))


# Which media a page may show inline, and how all others are sent.
#
# The bytes come from strangers. Only types that cannot contain a script are sent as pictures, and no file is ever
# opened as a page of this site.

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})


def is_shown(item: MediaItem) -> bool:
    """Whether a page may show it as a picture."""
    return item.type == "image" and item.mime_type in SHOWN


def answer(media: MediaContent) -> HttpResponse:
    """The bytes: a picture in place, anything else as a download of no particular type."""
    shown = is_shown(media.item)
    made = HttpResponse(media.content, content_type=media.item.mime_type if shown else "application/octet-stream")
    name = media.item.name or media.item.sha256[:12]
    made["Content-Disposition"] = content_disposition_header(not shown, name) or "attachment"
    made["Content-Security-Policy"] = "default-src 'none'; sandbox"
    # The address holds the hash, so its bytes never change; they are one operator's to see.
    made["Cache-Control"] = "private, max-age=86400, immutable"
    return made
