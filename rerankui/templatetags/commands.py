"""Commands that a page shows, to be pasted into a terminal."""

from __future__ import annotations

import shlex

from django import template

register = template.Library()


@register.filter
def shell(name: str) -> str:
    """A name as a shell takes it for one word, whatever is in it."""
    return shlex.quote(name)
