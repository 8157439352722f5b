"""Which media a page may show inline, and how all others are sent.

The bytes come from strangers. Only types that cannot contain a script are sent as pictures, and no file is ever opened
as a page of this site.
"""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem

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
