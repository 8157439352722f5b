"""One topic with its messages and its history, and the preview of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, cast

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from memoryapp import curation
from memoryapp.curation import Lineage, history
from memoryapp.curation.history import Narrowing
from memoryapp.curation.lineage import MOST_STEPS
from memoryapp.engine.memory import topic_id
from memoryapp.insight.browsing.profiles import has_vector
from memoryapp.insight.browsing.topics import TopicRuns, topic_runs
from memoryapp.memory import past
from memoryapp.models import Artifact, ChatUser, EditedTopic, Fact, KnowledgeEdit, Message, Role, Topic, TopicEdit
from memoryapp.search.neighbours import Neighbour, neighbours
from memoryapp.search.profiles import serving_profile
from rerankui.frame.access import Request, open_to, operator_of, topic_or_404
from rerankui.frame.pages import Page, PageContext, page_around, page_of, show
from rerankui.history.entry_views import EntryView, entry_views
from rerankui.past.pages import absent, changes_then
from rerankui.text.differences import difference
from rerankui.text.markdown import beyond, headline
from rerankui.text.talk import talk_of
from rerankui.text.time_axis import marks
from rerankui.web.moment import moment_of

# What the page of one topic shows.


@dataclass(frozen=True, slots=True)
class TopicTalk(PageContext):
    """What a topic says: its summary and a page of its messages, which are the same at every moment. ``title`` is what
    the summary begins with, ``more`` the rest; ``place`` is the number of messages on earlier pages."""

    owner: ChatUser
    topic: Topic
    title: str
    more: str
    page: Page[Message]
    place: int
    talk: Sequence[dict[str, Any]]
    minimap: Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RowChanges(PageContext):
    """The last changes of a row, each with its way back unless the reader looks at an earlier moment."""

    changes: Sequence[EntryView]
    has_older: bool
    row_id: str
    may_change: bool = False


@dataclass(frozen=True, slots=True)
class TopicPage(PageContext):
    """What stands beside the talk of a topic: its past, its neighbours, what was noted of it, the runs that met it. The
    page of an earlier moment permits nothing, and has no neighbours: only topics of today are compared.
    ``is_outdated``: the summary was written for other messages."""

    said: TopicTalk
    history: RowChanges
    lineage: Lineage
    seen: TopicRuns
    facts: Sequence[Fact] | QuerySet[Fact]
    artifacts: QuerySet[Artifact]
    made_by: TopicEdit | None
    made_again: bool
    successors: Sequence[Topic] = ()
    has_vector: bool = True
    neighbours: Sequence[Neighbour] = ()
    may_curate: bool = False
    may_erase: bool = False
    is_past: bool = False
    is_outdated: bool = False

    def names(self, **more: Any) -> dict[str, Any]:
        """Its own names beside those of the talk and the changes."""
        return {**self.said.names(), **self.history.names(), **PageContext.names(self, **more)}


def maker(lineage: Lineage) -> TopicEdit | None:
    """The edit that the topic lives by, when a way leads back from it."""
    last = lineage.edits[0] if lineage.edits else None
    return last if last and last.kind != TopicEdit.Kind.ARCHIVE else None


def is_outdated(topic: Topic, lineage: Lineage) -> bool:
    """Whether the edit that it lives by changed its messages and left the summary as it was."""
    last = maker(lineage)
    if last is None or last.kind == TopicEdit.Kind.UNDO or not topic.summary:
        return False
    return any(old.summary == topic.summary and old.message_count != topic.message_count for old in lineage.parents)


# One topic as it was at a moment: its messages never change, and what stands beside them is that of the moment.

FEW = 20
EDITS_SHOWN = 12


def not_then(request: HttpRequest, topic: Topic, moment: datetime) -> HttpResponse | None:
    """The page that says where the topic's messages were at a moment at which it was not live; None if it was. The
    row gets the state of the moment."""
    side = past.side_at(topic, moment)
    if side != EditedTopic.Side.IN:
        numbers = past.holders_at(topic.owner_id, [topic.pk], moment).get(topic.pk, ())[:FEW]
        rows = Topic.objects.of(topic.owner_id).in_bulk(numbers)
        holders = [rows[number] for number in numbers]
        return absent(request, topic_id(topic.pk), topic.owner, holders=holders, is_retired=bool(side))
    past.as_then(topic.owner_id, [topic], moment)
    return None


def topic_then(request: HttpRequest, topic: Topic, moment: datetime, talk: TopicTalk) -> HttpResponse:
    if missing := not_then(request, topic, moment):
        return missing
    former, lineage = curation.former(topic), curation.lineage(topic, until=moment)
    made_by, files = maker(lineage), Artifact.objects.filter(owner=topic.owner, message__topicmessage__topic=topic)
    changes = changes_then(topic.owner, Narrowing(noun="topic", number=topic.pk), moment, EDITS_SHOWN)
    rows: list[Fact] = past.known_at(topic.owner_id, KnowledgeEdit.Noun.FACT, moment)
    noted = [row for row in rows if row.topic_id in (topic.pk, *former) and not row.superseded_at]
    page = TopicPage(
        said=talk,
        history=RowChanges(**changes, row_id=topic_id(topic.pk)),
        lineage=lineage,
        seen=topic_runs(topic, former, until=moment),
        facts=sorted(noted, key=lambda row: (-row.importance, row.pk))[:FEW],
        artifacts=files.filter(created_at__lte=moment)[:FEW],
        made_by=made_by,
        made_again=made_by is not None and curation.is_again(made_by),
        is_past=True,
    )
    return render(request, "pages/topics/topic.html", page.names())


MESSAGES_SHOWN = 150
MESSAGES_PREVIEWED = 12


@open_to(Role.VIEWER)
def topic(request: HttpRequest, pk: int) -> HttpResponse:
    """One topic; for curators a workbench, on which its messages are cut and chosen."""
    shown = topic_or_404(request, pk)
    if cast(Request, request).htmx.target == "vector-state":
        is_comparable = has_vector(shown, serving_profile())
        context = {
            "owner": shown.owner,
            "topic": shown,
            "may_curate": _may_curate(request, shown),
            "has_vector": is_comparable,
            "has_come": is_comparable,
            "neighbours": neighbours(shown) if is_comparable else [],
        }
        return render(request, "partials/topics/vector_state.html", context)
    if moment := moment_of(request):
        return topic_then(request, shown, moment, _talk(request, shown))
    return render(request, "pages/topics/topic.html", _topic_page(request, shown).names())


def _topic_page(request: HttpRequest, topic: Topic) -> TopicPage:
    former, lineage = curation.former(topic), curation.lineage(topic)
    made_by = maker(lineage)
    # The topic's last changes, each with its way back, as beside a person or a fact.
    found = history.page(topic.owner, Narrowing(noun="topic", number=topic.pk), EDITS_SHOWN)
    may_change = operator_of(request).may(Role.CURATOR)
    return TopicPage(
        said=_talk(request, topic),
        history=RowChanges(entry_views(found.entries), found.has_after, topic_id(topic.pk), may_change),
        lineage=lineage,
        seen=topic_runs(topic, former),
        facts=Fact.objects.current()
        .filter(owner=topic.owner, topic__in=[topic.pk, *former])
        .order_by("-importance", "id")[:20],
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


def _place(topic: Topic, rows: Sequence[Message]) -> int:
    """Returns how many messages of the topic are on earlier pages."""
    if not rows:
        return 0
    first = rows[0]
    earlier = Q(sent_at__lt=first.sent_at) | Q(sent_at=first.sent_at, pk__lt=first.pk)
    return _messages(topic).filter(earlier).count()


@open_to(Role.VIEWER)
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


# Blame of a topic: which edit put each of its messages in, and which wrote each version of its summary.


@open_to(Role.VIEWER)
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
        {"version": v, "difference": difference(v.before, v.summary) if v.before else None} for v in found.versions
    ]
    context = {
        "owner": shown.owner,
        "topic": shown,
        "title": headline(shown.summary),
        "page": page,
        "groups": [{"step": step, "messages": list(each)} for step, each in groups],
        "versions": versions,
        "is_cut": len(found.line) > MOST_STEPS,
    }
    return render(request, "pages/topics/topic_blame.html", context)
