"""Erases a chat user at once, without the worker."""

from __future__ import annotations

from memoryapp.erasure import chat_user
from memoryapp.models import ChatUser, Erasure


def erase_user(owner: ChatUser, actor: str) -> Erasure:
    """Deletes every row and file of the chat user; returns the receipt."""
    return chat_user.finish_user(chat_user.begin_user(owner, actor))
