"""Variables of several prompts, and the values of those that describe what a query is asked in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from memoryapp.engine.chat.media import MediaContent
from memoryapp.engine.events import MediaItem
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts.prompt import PromptVariable
from memoryapp.engine.prompts.words import gettext_noop as _
from memoryapp.engine.text.lines import message_text, one_line, plain, quoted, shortened

# How many messages of the running conversation the reranker is shown, enough to resolve "it" and "that one".
CURRENT_MESSAGES = 10
_CURRENT_CHARS = 500

TODAY = PromptVariable("today", _("the date, as 2026-03-02"))
QUERY = PromptVariable("query", _("the query as the user typed it"), tag="user_query")
PROFILE = PromptVariable("profile", _("what is known of the user"), tag="user_profile")
TOPIC = PromptVariable("topic", _("the messages of the topic, one a line"), tag="topic")
SOURCES = PromptVariable("sources", _("the messages found, numbered"), tag="sources")
# What ``background`` has values of.
BACKGROUND = (
    TODAY,
    PROFILE,
    PromptVariable("recent_topics", _("what was talked about lately"), tag="recent_topics"),
    PromptVariable("messages", _("the last messages of the running conversation"), tag="current_messages"),
    PromptVariable("media", _("what is attached to the query, by name"), tag="media"),
    QUERY,
)


def background(
    query: str,
    *,
    messages: Sequence[MessageContent],
    profile: str,
    recent_topics: Sequence[str],
    media: Sequence[MediaContent],
    today: date,
    none: str,
) -> dict[str, str]:
    """The values of ``BACKGROUND``; what people wrote is quoted, and ``none`` stands for what there is none of."""
    return {
        "query": quoted(query.strip()),
        "messages": "\n".join(shortened(message_text(message), _CURRENT_CHARS) for message in messages) or none,
        "profile": quoted(profile.strip()) or none,
        "today": today.isoformat(),
        "recent_topics": listed(recent_topics) or none,
        "media": _attached(media) or none,
    }


def listed(lines: Sequence[str]) -> str:
    """The texts as a list, each on a line of its own."""
    return "\n".join(f"- {one_line(line)}" for line in lines)


def _attached(media: Sequence[MediaContent]) -> str:
    """The files that came with the query, in order."""
    return "\n".join(_attachment(number, each.item) for number, each in enumerate(media, 1))


def _attachment(number: int, item: MediaItem) -> str:
    return f"{number}. {item.type} {plain(item.name)} ({plain(item.mime_type)}, {item.size_bytes} bytes)"
