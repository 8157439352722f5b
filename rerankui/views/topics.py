"""Topics: the list, one topic with its messages and its history, and the preview of one."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryapp import browse
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import Artifact, ChatUser, Fact, Message, Topic
from rerankui.access import owner_or_404, topic_or_404
from rerankui.filters import TopicFilter
from rerankui.pages import page_of, show
from rerankui.talk import talk_of

MESSAGES_SHOWN = 150
MESSAGES_PREVIEWED = 12
STATES = {
    "retired": {"is_live": False},
    "by_hand": {"is_live": True, "locked_by_hand": True},
    "consolidated": {"is_live": True, "is_consolidated": True},
}


@require_safe
def topics(request: HttpRequest, owner: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    filters = TopicFilter(request.GET)
    found = _filtered(of, filters)
    page = page_of(request, found, filters.order)
    context = {"owner": of, "filters": filters, "page": page, "total": found.count()}
    return show(request, "pages/topics.html", "partials/topics.html", context)


def _filtered(owner: ChatUser, filters: TopicFilter) -> QuerySet[Topic]:
    found = Topic.objects.of(owner).filter(**STATES.get(filters.chosen["state"] or "", {"is_live": True}))
    words = filters.chosen["q"]
    return browse.topics_by_words(found, words, parse_topic_id(words)) if words else found


@require_safe
def topic(request: HttpRequest, pk: int) -> HttpResponse:
    shown = topic_or_404(request, pk)
    page = page_of(request, _messages(shown), ("sent_at", "id"), MESSAGES_SHOWN)
    context: dict[str, Any] = {
        "owner": shown.owner,
        "topic": shown,
        "page": page,
        "talk": talk_of(page.rows, here=_number(request.GET.get("at", ""))),
        "edits": browse.edits_of(shown),
        "successors": [] if shown.is_live else browse.successors(shown)[:20],
        "neighbours": browse.neighbours(shown),
        "seen": browse.seen_by_runs(shown),
        "facts": Fact.objects.filter(owner=shown.owner, topic=shown).order_by("-importance", "id")[:20],
        "artifacts": Artifact.objects.filter(owner=shown.owner, message__topicmessage__topic=shown)[:20],
    }
    return render(request, "pages/topic.html", context)


@require_safe
def topic_peek(request: HttpRequest, pk: int) -> HttpResponse:
    """A preview beside a list; opened as a page of its own where there is no JavaScript."""
    shown = topic_or_404(request, pk)
    rows = list(_messages(shown).order_by("sent_at", "id")[:MESSAGES_PREVIEWED])
    context = {
        "owner": shown.owner,
        "topic": shown,
        "talk": talk_of(rows),
        "unshown": shown.message_count - len(rows),
        "successors": [] if shown.is_live else browse.successors(shown)[:20],
    }
    return show(request, "pages/topic_peek.html", "partials/topic_peek.html", context)


def _messages(topic: Topic) -> QuerySet[Message]:
    """The messages the topic was made of, also when it is retired."""
    return Message.objects.of(topic.owner_id).filter(topicmessage__topic=topic)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None
