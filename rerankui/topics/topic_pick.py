"""Choosing another topic: the live topics by meaning and by words, to move messages into or to merge with.

Without words, the topics nearest to the present one; with words, first those whose summary contains them, then those
similar in meaning.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp.browsing.neighbours import Neighbour, neighbours
from memoryapp.browsing.summary_search import topics_by_words
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import Role, Topic
from memoryapp.suggestions import proposals
from rerankui.access import requires, topic_or_404
from rerankui.addresses import next_address
from rerankui.filters import LONGEST_SEARCH
from rerankui.pages import show

MOST = 12
DEEDS = ("move", "merge")
LONGEST_LIST = 200_000


@require_safe
@requires(Role.CURATOR)
def topic_pick(request: HttpRequest, pk: int) -> HttpResponse:
    """Each topic found is a button that leads to the preview of the change."""
    topic = topic_or_404(request, pk)
    words = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    deed = request.GET.get("op", "")
    chosen = ",".join(request.GET.getlist("messages"))[:LONGEST_LIST]
    context: dict[str, Any] = {
        "owner": topic.owner,
        "topic": topic,
        "words": words,
        "deed": deed if deed in DEEDS else "move",
        "chosen": chosen,
        "following": bool(request.GET.get("following")),
        "back": next_address(request),
        "found": matches(topic, words) if words else neighbours(topic, MOST),
    }
    return show(request, "pages/topics/topic_pick.html", "partials/topics/picked.html", context)


def matches(topic: Topic, words: str) -> list[Neighbour]:
    """Topics by words, then by meaning, each once and never the topic itself; similarity 0 where only words match."""
    live = Topic.objects.of(topic.owner_id).live().exclude(pk=topic.pk)
    by_words = topics_by_words(live, words, parse_topic_id(words)).order_by("-ended_at", "-id")[: MOST // 2]
    by_meaning = {near.topic.pk: near for near in _alike(topic, words)}
    first = [by_meaning.pop(row.pk, Neighbour(row, 0.0)) for row in by_words]
    return [*first, *by_meaning.values()][:MOST]


def _alike(topic: Topic, words: str) -> list[Neighbour]:
    near = proposals.topics_alike(topic.owner, words, MOST + 1)
    return [each for each in near if each.topic.pk != topic.pk]
