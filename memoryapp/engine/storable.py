"""Text that PostgreSQL and UTF-8 can store, whatever its origin."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """``text`` with U+FFFD in place of each NUL and each lone surrogate; same length."""
    # Most chats in English are ASCII; Python knows that without reading the text.
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)
