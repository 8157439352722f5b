"""Topics with which a topic might be merged: those that are suggested, else those that are near enough."""

from __future__ import annotations

from memoryapp.browsing.neighbours import neighbours
from memoryapp.models import EmbeddingProfile, Suggestion, Topic

MOST = 2


def partners(owner_id: int, topic: int) -> list[tuple[int, int]]:
    """At most two pairs of live topics, each with the ``topic`` first."""
    suggested = Suggestion.objects.filter(
        owner=owner_id, kind=Suggestion.Kind.MERGE, state=Suggestion.State.OPEN, topics__contains=[topic]
    )
    others = [other for each in suggested.order_by("-score", "-pk")[:MOST] for other in each.topics if other != topic]
    if not others:
        others = _near(owner_id, topic)
    return [(topic, other) for other in dict.fromkeys(others)][:MOST]


def _near(owner_id: int, topic: int) -> list[int]:
    row = Topic.objects.of(owner_id).live().filter(pk=topic).first()
    serving = EmbeddingProfile.objects.filter(is_serving=True).first()
    if row is None or serving is None:
        return []
    near = neighbours(row, MOST)
    return [each.topic.pk for each in near if each.similarity >= serving.consolidation_threshold]
