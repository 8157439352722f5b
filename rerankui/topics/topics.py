"""The list of topics: by words, dates, size and state."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.views.decorators.http import require_safe

from memoryapp import bulk, past
from memoryapp.browsing.comparison import MOST_TOPICS
from memoryapp.browsing.summary_search import topics_by_words
from memoryapp.browsing.topic_counts import topic_counts
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import ChatUser, Message, Role, Topic
from rerankui.access import operator_of, owner_or_404
from rerankui.filters import TopicFilter
from rerankui.lists import of_topics
from rerankui.lists.by_meaning import NearList, near_list
from rerankui.lists.facets import counted, is_narrowed, narrowed
from rerankui.pages import is_partial, page_of, show
from rerankui.web.moment import moment_of

STATES = {
    "retired": {"is_live": False},
    "by_hand": {"is_live": True, "locked_by_hand": True},
    "consolidated": {"is_live": True, "is_consolidated": True},
}


@require_safe
def topics(request: HttpRequest, owner_id: int) -> HttpResponseBase:
    owner, moment = owner_or_404(request, owner_id), moment_of(request)
    filters = TopicFilter(request.GET)
    facets = of_topics.facets_of(owner, request.GET, is_past=moment is not None)
    near = None if moment else near_list(owner, filters, "topics")
    listed = filtered_topics(owner, filters, moment, near)
    found = narrowed(listed, facets, request.GET)
    ordered = found.order_by(*(near.order if near else filters.order))
    if file := of_topics.file_of_topics(request, owner, ordered, moment):
        return file
    page = near.page(found) if near else page_of(request, found, filters.order)
    if moment:
        past.as_then(owner.pk, page.rows, moment, is_live=filters.chosen["state"] != "retired")
    context: dict[str, Any] = {"owner": owner, "filters": filters, "page": page, "total": found.count()}
    context |= {"facets": counted(request, listed, facets), "is_partial": is_partial(request)}
    context["is_narrowed"] = filters.is_narrowed or is_narrowed(facets, request.GET)
    context |= {"may_change": operator_of(request).may(Role.CURATOR), "most_compared": MOST_TOPICS}
    context["most_made_again"] = bulk.MOST_TOPICS
    context["near"] = near
    context["is_past"] = moment is not None
    context["counts"] = topic_counts(owner.pk, [topic.pk for topic in page], moment)
    context["is_begun"] = bool(page.rows) or Message.objects.of(owner).present().exists()
    return show(request, "pages/topics/topics.html", "partials/topics/topics.html", context)


def matching_topics(owner: ChatUser, query: QueryDict) -> QuerySet[Topic]:
    """The owner's topics that the list with this address shows, on all of its pages."""
    filters = TopicFilter(query)
    listed = filtered_topics(owner, filters, near=near_list(owner, filters, "topics"))
    return narrowed(listed, of_topics.facets_of(owner, query), query)


def filtered_topics(
    owner: ChatUser, filters: TopicFilter, moment: datetime | None = None, near: NearList | None = None
) -> QuerySet[Topic]:
    """The owner's topics, or those of the moment, that pass the filters, whatever facet is chosen; with ``near``, of
    those."""
    state = filters.chosen["state"] or ""
    conditions = STATES.get(state, {"is_live": True})
    if moment is None:
        found = Topic.objects.of(owner).filter(**conditions)
    else:
        rows = past.retired_by(moment) if state == "retired" else past.topics_at(moment)
        found = rows.filter(owner=owner, **{name: value for name, value in conditions.items() if name != "is_live"})
    if filters.chosen["topics"]:
        found = found.filter(pk__in=filters.chosen["topics"])
    if near:
        return near.of(found)
    words = filters.chosen["q"]
    return topics_by_words(found, words, parse_topic_id(words)) if words else found
