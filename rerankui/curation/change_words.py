"""A change as a sentence with numbers: before it is made, and afterwards."""

from __future__ import annotations

from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext as _

from memoryapp.curation import MERGER, Change, ChangeRequest
from memoryapp.engine.agents import AGENTS, merger
from memoryapp.engine.memory import topic_id
from memoryapp.ingestion.archiving import PROGRAM
from memoryapp.transfer import RESTORED
from rerankui.text import counts

MOST_SIZES = 8


def actor_words(actor: str) -> str:
    """Who did it: an operator or a token by name, the program or one of its agents where nobody asked, or whom a
    restored file names."""
    if actor == PROGRAM:
        return pgettext("who", "the program")
    if agent := AGENTS.get(merger.AGENT.name if actor == MERGER else actor):
        return pgettext("who", "the %(agent)s") % {"agent": gettext(agent.label)}
    if actor.startswith(RESTORED):
        return pgettext("who", "%(name)s (says a restored file)") % {"name": actor.removeprefix(RESTORED)}
    return actor


def would_words(request: ChangeRequest, change: Change) -> str:
    """What will happen: ``3 topics with 214 messages become one.``"""
    return str(request.operation.words.would) % _facts(request, change)


def made_words(request: ChangeRequest, change: Change) -> str:
    """What was done, for a toast: ``Merged 3 topics, 214 messages``"""
    return str(request.operation.words.made) % _facts(request, change)


def parts_words(sizes: list[int]) -> str:
    """``3 topics: 12, 8, 5 messages``."""
    return _("%(topics)s: %(sizes)s messages") % {"topics": _topics(len(sizes)), "sizes": _listed(sizes)}


def _facts(request: ChangeRequest, change: Change) -> dict[str, str]:
    sizes, moved = [len(draft.messages) for draft in change.put], len(request.messages)
    return {
        "named": ", ".join(map(topic_id, change.out[:5])),
        "topics": _topics(len(change.out)),
        "before": _topics(len(change.out)),
        "after": _topics(len(change.put)),
        "messages": counts.messages(sum(sizes)),
        "moved": ngettext("%(n)d message goes", "%(n)d messages go", moved) % {"n": moved},
        "messages_moved": counts.messages(moved),
        "sizes": _listed(sizes),
    }


def _topics(count: int) -> str:
    return ngettext("%(n)d topic", "%(n)d topics", count) % {"n": count}


def _listed(sizes: list[int]) -> str:
    shown = ", ".join(map(str, sizes[:MOST_SIZES]))
    return shown if len(sizes) <= MOST_SIZES else f"{shown}, …"
