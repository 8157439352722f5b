"""What an import says of its file: the format, and places in it."""

import re

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.importers import FORMATS

register = template.Library()

_NAMED_PLACE = re.compile(r"\b(line|message) (\d+)")
_PLACES = {"line": gettext_lazy("line %(n)s"), "message": gettext_lazy("message %(n)s")}


@register.filter
def format_name(code: str) -> str:
    """The format of an import, by the name its makers gave it."""
    return FORMATS[code].label if code in FORMATS else code


_CHAT_KINDS = {
    "saved_messages": gettext_lazy("saved messages"),
    "replies": gettext_lazy("replies"),
    "personal_chat": gettext_lazy("personal chat"),
    "bot_chat": gettext_lazy("chat with a bot"),
    "private_group": gettext_lazy("group"),
    "private_supergroup": gettext_lazy("group"),
    "public_supergroup": gettext_lazy("public group"),
    "private_channel": gettext_lazy("channel"),
    "public_channel": gettext_lazy("public channel"),
}


@register.filter
def chat_kind(kind: str) -> str:
    """What a chat is, in people's words; a kind of another program as that calls it."""
    return str(_CHAT_KINDS.get(kind, kind or _("chat")))


@register.filter
def place(line: int | str) -> str:
    """Returns a place in a file of chats, which is stored as a line number, as ``line 3, message 1`` or as a path."""
    text = f"line {line}" if isinstance(line, int) else line
    return _NAMED_PLACE.sub(lambda found: _PLACES[found[1]] % {"n": found[2]}, text)
