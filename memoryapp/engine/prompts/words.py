"""Words of the engine for people, which its pages translate."""

from __future__ import annotations


def gettext_noop(text: str) -> str:
    """Marks an English ``text`` for the catalogue of translations and returns it unchanged."""
    return text
