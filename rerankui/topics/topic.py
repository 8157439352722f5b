"""One topic with its messages and its history, and the preview of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryapp import curation, history
from memoryapp.browsing.coverage import has_vector
from memoryapp.browsing.neighbours import neighbours
from memoryapp.browsing.topic_runs import topic_runs
from memoryapp.engine.memory import topic_id
from memoryapp.history import Narrowing
from memoryapp.models import Artifact, Fact, Message, Role, Topic
from memoryapp.search.profiles import serving_profile
from rerankui.access import Request, operator_of, topic_or_404
from rerankui.history.entry_views import entry_views
from rerankui.pages import Page, page_around, page_of, show
from rerankui.text.minimap import marks
from rerankui.text.prose import beyond, headline
from rerankui.text.talk import talk_of
from rerankui.topics.topic_page import RowChanges, TopicPage, TopicTalk, is_outdated, maker
from rerankui.topics.topic_then import not_then, topic_then
from rerankui.web.moment import moment_of

MESSAGES_SHOWN = 150
MESSAGES_PREVIEWED = 12
EDITS_SHOWN = 12


@require_safe
def topic(request: HttpRequest, pk: int) -> HttpResponse:
    """One topic; for curators a workbench, on which its messages are cut and chosen."""
    shown = topic_or_404(request, pk)
    if cast(Request, request).htmx.target == "vector-state":
        return _vector_state(request, shown)
    if moment := moment_of(request):
        return topic_then(request, shown, moment, _talk(request, shown))
    return render(request, "pages/topics/topic.html", _topic_page(request, shown).names())


def _topic_page(request: HttpRequest, topic: Topic) -> TopicPage:
    former, lineage = curation.former(topic), curation.lineage(topic)
    made_by = maker(lineage)
    return TopicPage(
        said=_talk(request, topic),
        history=_changes(request, topic),
        lineage=lineage,
        seen=topic_runs(topic, former),
        facts=_facts(topic, former),
        artifacts=Artifact.objects.filter(owner=topic.owner, message__topicmessage__topic=topic)[:20],
        made_by=made_by,
        made_again=made_by is not None and curation.is_again(made_by),
        successors=[] if topic.is_live else curation.successor_topics(topic),
        has_vector=has_vector(topic, serving_profile()),
        neighbours=neighbours(topic),
        may_curate=_may_curate(request, topic),
        may_erase=operator_of(request).may(Role.ADMIN),
        is_outdated=topic.is_live and is_outdated(topic, lineage),
    )


def _talk(request: HttpRequest, topic: Topic) -> TopicTalk:
    here, title = _number(request.GET.get("at", "")), headline(topic.summary)
    page = _page(request, topic, here)
    return TopicTalk(
        owner=topic.owner,
        topic=topic,
        title=title,
        more=beyond(topic.summary, title),
        page=page,
        place=_place(topic, page.rows),
        talk=talk_of(page.rows, here=here),
        minimap=marks(topic, page.rows),
    )


def _may_curate(request: HttpRequest, topic: Topic) -> bool:
    return topic.is_live and operator_of(request).may(Role.CURATOR)


def _page(request: HttpRequest, topic: Topic, here: int | None) -> Page[Message]:
    """A page of the topic's messages: the one around the message pointed at, where the topic holds it."""
    order, messages = ("sent_at", "id"), _messages(topic)
    at = messages.filter(pk=here).first() if here else None
    if at is None or "after" in request.GET or "before" in request.GET:
        return page_of(request, messages, order, MESSAGES_SHOWN)
    return page_around(messages, order, at, MESSAGES_SHOWN)


def _facts(topic: Topic, former: Sequence[int]) -> QuerySet[Fact]:
    """What was noted of the topic's messages, under whichever number they stood then."""
    return (
        Fact.objects.current()
        .filter(owner=topic.owner, topic__in=[topic.pk, *former])
        .order_by("-importance", "id")[:20]
    )


def _changes(request: HttpRequest, topic: Topic) -> RowChanges:
    """The topic's last changes, each with its way back, as beside a person or a fact."""
    found = history.page(topic.owner, Narrowing(noun="topic", number=topic.pk), EDITS_SHOWN)
    may_change = operator_of(request).may(Role.CURATOR)
    return RowChanges(entry_views(found.entries), found.has_after, topic_id(topic.pk), may_change)


def _vector_state(request: HttpRequest, topic: Topic) -> HttpResponse:
    """Whether its vector is there by now, and then its neighbours."""
    is_comparable = has_vector(topic, serving_profile())
    context = {
        "owner": topic.owner,
        "topic": topic,
        "may_curate": _may_curate(request, topic),
        "has_vector": is_comparable,
        "has_come": is_comparable,
        "neighbours": neighbours(topic) if is_comparable else [],
    }
    return render(request, "partials/topics/vector_state.html", context)


def _place(topic: Topic, rows: Sequence[Message]) -> int:
    """Returns how many messages of the topic are on earlier pages."""
    if not rows:
        return 0
    first = rows[0]
    earlier = Q(sent_at__lt=first.sent_at) | Q(sent_at=first.sent_at, pk__lt=first.pk)
    return _messages(topic).filter(earlier).count()


@require_safe
def topic_peek(request: HttpRequest, pk: int) -> HttpResponse:
    """A preview beside a list; opened as a page of its own where there is no JavaScript."""
    shown = topic_or_404(request, pk)
    if (moment := moment_of(request)) and (missing := not_then(request, shown, moment)):
        return missing
    rows = list(_messages(shown).order_by("sent_at", "id")[:MESSAGES_PREVIEWED])
    context = {
        "owner": shown.owner,
        "topic": shown,
        "talk": talk_of(rows),
        "unshown": shown.message_count - len(rows),
        "successors": [] if shown.is_live else curation.successor_topics(shown),
        "seen": topic_runs(shown, curation.former(shown), until=moment),
    }
    return show(request, "pages/topics/topic_peek.html", "partials/topics/topic_peek.html", context)


def _messages(topic: Topic) -> QuerySet[Message]:
    """The messages the topic was made of, also when it is retired."""
    return Message.objects.of(topic.owner_id).filter(topicmessage__topic=topic)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None
