"""To which topic: the live topics by meaning and by words, to move messages into or to merge with.

Without words those nearest to the topic in hand; with words those whose summary holds them first, then those
that mean something alike.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp import browse, clients
from memoryapp.browse import Neighbour
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import parse_topic_id
from memoryapp.models import Role, Topic
from rerankui.access import requires, topic_or_404
from rerankui.changes import ours
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
        "back": ours(request, request.GET.get("next", "")),
        "found": found(topic, words) if words else browse.neighbours(topic, MOST),
    }
    return show(request, "pages/topic_pick.html", "partials/picked.html", context)


def found(topic: Topic, words: str) -> list[Neighbour]:
    """Topics by words, then by meaning, each once and never the topic itself; similarity 0 where only words match."""
    live = Topic.objects.of(topic.owner_id).live().exclude(pk=topic.pk)
    by_words = browse.topics_by_words(live, words, parse_topic_id(words)).order_by("-ended_at", "-id")[: MOST // 2]
    by_meaning = {near.topic.pk: near for near in _alike(topic, words)}
    first = [by_meaning.pop(row.pk, Neighbour(row, 0.0)) for row in by_words]
    return [*first, *by_meaning.values()][:MOST]


def _alike(topic: Topic, words: str) -> list[Neighbour]:
    embedder = clients.embedder()
    try:
        [vector] = async_to_sync(embedder.embed)([words])
    except EmbeddingError:
        return []
    near = browse.nearest(topic.owner, vector.tolist(), embedder.profile, MOST + 1)
    return [found for found in near if found.topic.pk != topic.pk]
