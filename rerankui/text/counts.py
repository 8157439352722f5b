"""Numbers of things in words, grouped as the reader's language groups them."""

from __future__ import annotations

from django.utils.formats import number_format
from django.utils.translation import ngettext


def grouped(number: int | float) -> str:
    """1284 as ``1,284``, in the reader's language."""
    return number_format(number, force_grouping=True)


def messages(count: int) -> str:
    """1284 as ``1,284 messages``."""
    return ngettext("%(shown)s message", "%(shown)s messages", count) % {"shown": grouped(count)}


def characters(count: int) -> str:
    """1284 as ``1,284 characters``."""
    return ngettext("%(shown)s character", "%(shown)s characters", count) % {"shown": grouped(count)}
