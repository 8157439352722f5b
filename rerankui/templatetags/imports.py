"""What an import says of its file: the format, and places in it."""

from __future__ import annotations

import re

from django import template
from django.utils.translation import gettext_lazy

from memoryapp.importers import FORMATS

register = template.Library()

_NAMED_PLACE = re.compile(r"\b(line|message) (\d+)")
_PLACES = {"line": gettext_lazy("line %(n)s"), "message": gettext_lazy("message %(n)s")}


@register.filter
def format_name(code: str) -> str:
    """The format of an import, by the name its makers gave it."""
    return FORMATS[code].label if code in FORMATS else code


@register.filter
def place(line: int | str) -> str:
    """Returns a place in a file of chats, which is stored as a line number, as ``line 3, message 1`` or as a path."""
    text = f"line {line}" if isinstance(line, int) else line
    return _NAMED_PLACE.sub(lambda found: _PLACES[found[1]] % {"n": found[2]}, text)
