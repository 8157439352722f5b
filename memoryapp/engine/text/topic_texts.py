"""A topic as the text its vector is made of: summary and log together, in pieces where it is too long for a model."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

_FORM = "Topic Summary: {summary}\n\nConversation Log:\n"


def topic_texts(summary: str, log: Iterable[tuple[str, str]], most: int) -> list[str]:
    """The texts of at most ``most`` characters whose vectors' mean is the topic's; none where there is nothing in it.

    ``log`` are role and text of its messages in order. Each piece begins with the summary, so that all of them are of
    the same subject, and they are of about the same length, so that none counts for more than its share.
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
    """Where the piece ends: after the last message that fits, else after the last word, else in the middle of one."""
    if end >= len(log):
        return len(log)
    half = start + (end - start) // 2
    # Not found is -1, so that the next is tried.
    return log.rfind("\n", half, end) + 1 or log.rfind(" ", half, end) + 1 or end
