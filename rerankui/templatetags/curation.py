"""Toasts, and what became of a topic in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import template
from django.contrib.messages.storage.base import Message
from django.utils.translation import gettext as _

from memoryapp.models import TopicEdit
from rerankui.change_words import actor_words

register = template.Library()

MOST_HOLDERS = 3


@register.filter
def undo_of(message: Message) -> tuple[str, str] | None:
    """The address and the word of a toast's button; None for a message that is no toast."""
    mark, _space, rest = (message.extra_tags or "").partition(" ")
    address, _space, word = rest.partition(" ")
    return (address, word) if mark == "toast" else None


@register.filter
def deed(edit: TopicEdit) -> str:
    """``ada merged``: who did what, for a sentence that goes on."""
    if edit.kind == TopicEdit.Kind.UNDO:
        return _("%(who)s took a change back") % {"who": actor_words(edit.actor)}
    return _("%(who)s %(did)s") % {"who": actor_words(edit.actor), "did": edit.get_kind_display()}


@register.inclusion_tag("partials/origin.html")
def origin(holders: Mapping[int, Sequence[int]], topic: int) -> dict[str, object]:
    """Where the messages of ``topic`` are today; ``holders`` are live topics by the number they follow."""
    now = holders.get(topic, ())
    return {"topic": topic, "holders": now[:MOST_HOLDERS], "more": len(now[MOST_HOLDERS:]), "is_live": topic in now}
