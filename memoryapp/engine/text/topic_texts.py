"""The texts from which a topic's vector is made: its summary and messages, in pieces if too long for a model."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

_FORM = "Topic Summary: {summary}\n\nConversation Log:\n"


def topic_texts(summary: str, log: Iterable[tuple[str, str]], most: int) -> list[str]:
    """The texts of at most ``most`` characters whose vectors have the topic's vector as their mean; none for an empty
    topic.

    ``log`` holds role and text of its messages in order. Each piece begins with the summary, so that all have the same
    subject. They are of about equal length, so that none counts more than its share.
    """
    lines = [f"[{role.capitalize()}]: {text.strip()}" for role, text in log if text.strip()]
    if not lines and not summary.strip():
        return []
    head, whole = _FORM.format(summary=summary.strip()[: most // 2]), "\n".join(lines)
    room = max(1, most - len(head))
    return [(head + piece).strip() for piece in _pieces(whole, room)] or [head.strip()]


def _pieces(log: str, room: int) -> list[str]:
    pieces, start = [], 0
    size = ceil(len(log) / max(1, ceil(len(log) / room)))
    while start < len(log):
        end = _break(log, start, start + size)
        pieces.append(log[start:end])
        start = end
    return pieces


def _break(log: str, start: int, end: int) -> int:
    """The end of the piece: after the last message that fits, otherwise after the last word, otherwise
    inside a word."""
    if end >= len(log):
        return len(log)
    half = start + (end - start) // 2
    # -1 means not found, so the next separator is tried.
    return log.rfind("\n", half, end) + 1 or log.rfind(" ", half, end) + 1 or end
