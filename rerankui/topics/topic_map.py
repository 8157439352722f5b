"""The map: topics as dots, near each other when they are about the same, to be picked with a brush."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryapp.browsing.topic_map import MapPoint, MapRegion, TopicMap, last_run
from memoryapp.browsing.topic_map import topic_map as placed
from memoryapp.models import Role
from rerankui.access import operator_of, owner_or_404
from rerankui.pages import PAGE_SIZE

# Of many topics shorter summaries are sent.
SUMMARY_CHARS, MANY, SHORT_CHARS = 140, 1_500, 60


@require_safe
def topic_map(request: HttpRequest, owner_id: int) -> HttpResponse:
    owner = owner_or_404(request, owner_id)
    found, last = placed(owner), last_run(owner)
    chars = SUMMARY_CHARS if len(found.points) <= MANY else SHORT_CHARS
    context: dict[str, Any] = {
        "owner": owner,
        "map": found,
        "dots": [_dot(point, chars) for point in found.points],
        "listed": found.points[:PAGE_SIZE],
        "unlisted": len(found.points[PAGE_SIZE:]),
        "percent": round(100 * found.shown),
        "regions": [_region(region) for region in found.regions],
        "last": last,
        "lit": dict.fromkeys(last.read, "read") | dict.fromkeys(last.chosen, "chosen") if last else {},
        "colour": _colour(request.GET.get("colour", ""), found),
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return render(request, "pages/topics/topic_map.html", context)


def _colour(asked: str, found: TopicMap) -> str:
    """Returns what the colour of the dots means: what was asked for, or the first choice."""
    known = ("region", "time", "size") if found.regions else ("time", "size")
    return asked if asked in known else known[0]


def _region(region: MapRegion) -> dict[str, Any]:
    corners = [[round(x, 4), round(y, 4)] for x, y in region.corners]
    return {"name": ", ".join(region.words), "count": region.count, "corners": corners}


def _dot(point: MapPoint, chars: int) -> list[Any]:
    """Number, place, first and last second, messages, characters, summary, region: as short as many of them must be."""
    topic, x, y = point.topic, round(point.x, 4), round(point.y, 4)
    return [
        topic.pk,
        x,
        y,
        topic.began,
        topic.ended,
        topic.message_count,
        topic.size_chars,
        topic.summary[:chars],
        point.region,
    ]
