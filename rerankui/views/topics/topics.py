"""The list of topics: by words, dates, size and state."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp.browsing.comparison import MOST_TOPICS
from memoryapp.browsing.summary_search import topics_by_words
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import ChatUser, Message, Role, Topic
from rerankui.access import operator_of, owner_or_404
from rerankui.filters import TopicFilter
from rerankui.pages import page_of, show

STATES = {
    "retired": {"is_live": False},
    "by_hand": {"is_live": True, "locked_by_hand": True},
    "consolidated": {"is_live": True, "is_consolidated": True},
}


@require_safe
def topics(request: HttpRequest, owner: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    filters = TopicFilter(request.GET)
    found = filtered_topics(of, filters)
    page = page_of(request, found, filters.order)
    context = {"owner": of, "filters": filters, "page": page, "total": found.count()}
    context |= {"may_change": operator_of(request).may(Role.CURATOR), "most_compared": MOST_TOPICS}
    context["is_begun"] = bool(page.rows) or Message.objects.of(of).present().exists()
    return show(request, "pages/topics/topics.html", "partials/topics/topics.html", context)


def filtered_topics(owner: ChatUser, filters: TopicFilter) -> QuerySet[Topic]:
    """The owner's topics that the list shows."""
    found = Topic.objects.of(owner).filter(**STATES.get(filters.chosen["state"] or "", {"is_live": True}))
    if filters.chosen["topics"]:
        found = found.filter(pk__in=filters.chosen["topics"])
    words = filters.chosen["q"]
    return topics_by_words(found, words, parse_topic_id(words)) if words else found
