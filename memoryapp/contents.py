"""Rows of messages as the engine reads them."""

from __future__ import annotations

from memoryapp.engine.memory import MessageContent
from memoryapp.models import Message


def content(row: Message) -> MessageContent:
    """What was said, by whom and when, without the row."""
    username = row.metadata.get("username") or ""
    return MessageContent(
        row.pk, row.role, row.author, row.sent_at, row.text, row.forwarded_from, str(username), row.session
    )
