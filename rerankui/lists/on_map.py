"""Facets of the list of topics by where they lie on the map: in one of its regions, or in an area that was drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from django.db.models import Case, Q, Value, When
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.browsing.topic_map import MapRegion, topic_map, topics_within
from memoryapp.models import ChatUser
from rerankui.lists.facets import LONGEST_VALUE, Facet

AREA, REGION = "area", "region"
ELSEWHERE = "elsewhere"
# The corners of an area in thousandths of the map's unit, as "-120,35;200,35;40,310".
_AREA = re.compile(r"-?\d{1,5},-?\d{1,5}(?:;-?\d{1,5},-?\d{1,5}){2,40}")


def facets(owner: ChatUser, query: QueryDict) -> Iterator[Facet]:
    """Those that the address chooses."""
    if AREA in query:
        yield _of_area(owner, query.get(AREA, "")[:LONGEST_VALUE])
    if REGION in query:
        yield _of_regions(owner)


def _of_area(owner: ChatUser, drawn: str) -> Facet:
    """An area that cannot be read contains nothing."""
    inside = topics_within(owner, _corners(drawn)) if _AREA.fullmatch(drawn) else []
    by = Case(When(Q(pk__in=inside), then=Value(drawn)), default=Value(ELSEWHERE))
    return Facet(AREA, gettext_lazy("On the map"), by, _area_words)


def _corners(drawn: str) -> list[tuple[float, float]]:
    return [(int(x) / 1000, int(y) / 1000) for x, y in (corner.split(",") for corner in drawn.split(";"))]


def _area_words(value: str) -> str:
    return _("elsewhere on the map") if value == ELSEWHERE else _("in the area drawn")


def _of_regions(owner: ChatUser) -> Facet:
    found = topic_map(owner)
    members: list[list[int]] = [[] for _region in found.regions]
    for point in found.points if found.regions else ():
        members[point.region].append(point.topic.pk)
    cases = [When(Q(pk__in=numbers), then=Value(str(at))) for at, numbers in enumerate(members)]
    by = Case(*cases, default=Value(ELSEWHERE))
    return Facet(REGION, gettext_lazy("On the map"), by, lambda value: _region_words(found.regions, value))


def _region_words(regions: Sequence[MapRegion], value: str) -> str:
    known = value.isdecimal() and len(value) < 3 and int(value) < len(regions)
    return ", ".join(regions[int(value)].words) if known else _("elsewhere on the map")
