"""What became of a topic in a few words, and where a message is read."""

from collections.abc import Mapping, Sequence

from django import template
from django.urls import reverse
from django.utils.translation import gettext as _

from memoryapp.curation import OPERATIONS
from memoryapp.insight.browsing.topics import TopicCounts
from memoryapp.models import Message, TopicEdit
from rerankui.curation.change_form import actor_words

register = template.Library()

MOST_HOLDERS = 3


@register.filter
def deed(edit: TopicEdit, is_again: bool = False) -> str:
    """Returns who did what, as part of a sentence (``ada merged``); ``is_again`` if an undo reverted another one."""
    if is_again:
        return _("%(who)s did a change again") % {"who": actor_words(edit.actor)}
    if edit.kind == TopicEdit.Kind.UNDO:
        return _("%(who)s took a change back") % {"who": actor_words(edit.actor)}
    return _("%(who)s %(did)s") % {"who": actor_words(edit.actor), "did": edit.get_kind_display()}


@register.filter
def counted_of(counts: Mapping[int, TopicCounts], topic: int) -> TopicCounts | None:
    """What recent runs did with this topic, where they did anything."""
    return counts.get(topic) or None


@register.inclusion_tag("partials/curation/origin.html")
def origin(holders: Mapping[int, Sequence[int]], topic: int) -> dict[str, object]:
    """Where the messages of ``topic`` are today; ``holders`` are live topics by the number they follow."""
    now = holders.get(topic, ())
    return {"topic": topic, "holders": now[:MOST_HOLDERS], "more": len(now[MOST_HOLDERS:]), "is_live": topic in now}


@register.inclusion_tag("partials/curation/bench_buttons.html")
def bench_buttons(ticked: str) -> dict[str, object]:
    """The operations that are offered for ``cuts`` between messages or for ``chosen`` messages."""
    return {"operations": [each for each in OPERATIONS.values() if each.bench and each.bench.ticked == ticked]}


@register.simple_tag
def message_address(message: Message) -> str:
    """Where the message is read: in its topic, or in the talk while no topic holds it."""
    if message.topic_id:
        return f"{reverse('topic', args=[message.topic_id])}#message-{message.pk}"
    return f"{reverse('messages', args=[message.owner_id])}?at={message.pk}#message-{message.pk}"
