"""Blame of a topic: which edit put each of its messages in, and which wrote each version of its summary."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryapp import curation
from memoryapp.curation.blame import MOST_STEPS, SummaryVersion, TopicStep
from memoryapp.models import Message
from rerankui.access import topic_or_404
from rerankui.pages import page_of
from rerankui.text.differences import Difference, difference
from rerankui.text.prose import headline
from rerankui.topics.topic_then import not_then
from rerankui.web.moment import moment_of

MESSAGES_SHOWN = 150


@dataclass(frozen=True, slots=True)
class BlamedMessages:
    """Consecutive messages that one step put in."""

    step: TopicStep
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """``difference`` to the version before is None for the first one."""

    version: SummaryVersion
    difference: Difference | None


@require_safe
def topic_blame(request: HttpRequest, pk: int) -> HttpResponse:
    shown = topic_or_404(request, pk)
    if (moment := moment_of(request)) and (missing := not_then(request, shown, moment)):
        return missing
    messages = Message.objects.of(shown.owner_id).filter(topicmessage__topic=shown)
    page = page_of(request, messages, ("sent_at", "id"), MESSAGES_SHOWN)
    found = curation.blame(shown)
    put_in = found.put_in([message.pk for message in page])
    groups = groupby((message for message in page if message.pk in put_in), key=lambda each: put_in[each.pk])
    versions = [
        ShownVersion(each, difference(each.before, each.summary) if each.before else None) for each in found.versions
    ]
    context = {
        "owner": shown.owner,
        "topic": shown,
        "title": headline(shown.summary),
        "page": page,
        "groups": [BlamedMessages(step, list(each)) for step, each in groups],
        "versions": versions,
        "is_cut": len(found.line) > MOST_STEPS,
    }
    return render(request, "pages/topics/topic_blame.html", context)
