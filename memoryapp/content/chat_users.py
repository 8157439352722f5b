"""Finds or creates the chat user to whose memory something is added, unless that chat user is being erased.

The erasure of a chat user marks the row first (``ChatUser.erasing_since``); whatever writes messages, files or facts
checks the mark in its own transaction. ``erased`` lets caches drop what they keep of erased rows.
"""

from __future__ import annotations

from django.conf import settings
from django.dispatch import Signal
from django.utils.translation import gettext as _

from memoryapp.models import ChatUser

# Sent in the process that erases, after rows were deleted, with the ``number`` of their chat user.
erased = Signal()


class BeingErased(Exception):
    """Nothing can be added to a memory that is being erased; the text is a sentence for people."""


def being_erased(name: str) -> ChatUser | None:
    """Returns the chat user of that name whose erasure has not ended."""
    return ChatUser.with_erased.filter(name=name, erasing_since__isnull=False).first()


def check_kept(owner: ChatUser) -> None:
    """Raises BeingErased for a chat user that is marked, or gone."""
    if not ChatUser.objects.filter(pk=owner.pk).exists():
        raise BeingErased(_("This chat user is being erased; nothing can be added for them."))


def can_fill(topic_messages: int | None, session_messages: int | None) -> bool:
    """Whether a session can have as many messages as a topic needs; None stands for the program's setting."""
    least = topic_messages or settings.TOPIC_LEAST_MESSAGES
    return least <= (session_messages or settings.MAX_CHUNK_SIZE)


def found_or_made(name: str) -> ChatUser:
    """Returns the chat user of that name, created if missing. Raises BeingErased."""
    marked = being_erased(name)
    if marked:
        check_kept(marked)
    found: ChatUser = ChatUser.objects.get_or_create(name=name)[0]
    return found
