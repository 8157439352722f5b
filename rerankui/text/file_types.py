"""Kinds of files in words."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

_FILE_TYPES = {
    "image": pgettext_lazy("file", "picture"),
    "voice": pgettext_lazy("file", "voice message"),
    "audio": pgettext_lazy("file", "sound"),
    "video": pgettext_lazy("file", "video"),
    "document": pgettext_lazy("file", "document"),
    "text": pgettext_lazy("file", "text"),
}


def file_type(code: str) -> str | Promise:
    """What kind of file it is; a kind nobody foresaw (``pdf``) as it is stored."""
    return _FILE_TYPES.get(code, code)
