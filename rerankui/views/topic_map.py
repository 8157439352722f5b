"""The map: topics as dots, near each other when they are about the same, to be picked with a brush."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryapp.models import Role
from memoryapp.topic_map import Place, Region, TopicMap, last_run
from memoryapp.topic_map import topic_map as placed
from rerankui.access import operator_of, owner_or_404

NUMBERS_SHOWN = 200
SUMMARY_CHARS = 140


@require_safe
def topic_map(request: HttpRequest, owner: int) -> HttpResponse:
    of = owner_or_404(request, owner)
    found, last = placed(of), last_run(of)
    context: dict[str, Any] = {
        "owner": of,
        "map": found,
        "dots": [_dot(place) for place in found.places],
        "listed": found.places[:NUMBERS_SHOWN],
        "unlisted": len(found.places[NUMBERS_SHOWN:]),
        "percent": round(100 * found.shown),
        "regions": [_region(region) for region in found.regions],
        "last": last,
        "lit": dict.fromkeys(last.read, "read") | dict.fromkeys(last.chosen, "chosen") if last else {},
        "colour": _colour(request.GET.get("colour", ""), found),
        "may_change": operator_of(request).may(Role.CURATOR),
    }
    return render(request, "pages/topic_map.html", context)


def _colour(asked: str, found: TopicMap) -> str:
    """What the dots' colour tells: their region, where there are regions, else when they were talked about."""
    known = ("region", "time", "size") if found.regions else ("time", "size")
    return asked if asked in known else known[0]


def _region(region: Region) -> dict[str, Any]:
    corners = [[round(x, 4), round(y, 4)] for x, y in region.corners]
    return {"name": ", ".join(region.words), "count": region.count, "corners": corners}


def _dot(place: Place) -> list[Any]:
    """Number, place, first and last second, messages, characters, summary, region: as short as many of them must be."""
    topic, x, y = place.topic, round(place.x, 4), round(place.y, 4)
    began, ended = int(topic.started_at.timestamp()), int(topic.ended_at.timestamp())
    return [
        topic.pk,
        x,
        y,
        began,
        ended,
        topic.message_count,
        topic.size_chars,
        topic.summary[:SUMMARY_CHARS],
        place.region,
    ]
