"""The list of runs that people and programs asked for, newest first unless another order is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from memoryapp.models import Role, Run
from memoryapp.models.run import RunQuerySet
from rerankui.access import requires, visible_owners
from rerankui.filters import RunFilter
from rerankui.lists import of_runs
from rerankui.lists.downloads import download
from rerankui.lists.facets import counted, is_narrowed, narrowed
from rerankui.pages import is_partial, page_of, show


@require_safe
@requires(Role.VIEWER)
def run_list(request: HttpRequest) -> HttpResponseBase:
    owners = visible_owners(request)
    filters = RunFilter(request.GET, owners=owners)
    listed = Run.objects.by_hand().filter(owner__in=owners).select_related("owner", "operator")
    matching, facets = filtered(listed, filters.chosen), of_runs.facets()
    found = narrowed(matching, facets, request.GET)
    if file := download(request, found, of_runs.COLUMNS, filters.order, "runs"):
        return file
    context = {
        "filters": filters,
        "page": page_of(request, found, filters.order),
        "facets": counted(request, matching, facets),
        "is_partial": is_partial(request),
        "is_narrowed": filters.is_narrowed or is_narrowed(facets, request.GET),
    }
    return show(request, "pages/runs/runs.html", "partials/runs/runs.html", context)


def filtered(listed: RunQuerySet, chosen: Mapping[str, str]) -> RunQuerySet:
    """The runs that fit what ``RunFilter`` has chosen."""
    if chosen["q"]:
        listed = listed.filter(query__icontains=chosen["q"])
    if chosen["user"]:
        listed = listed.filter(owner__name=chosen["user"])
    if chosen["strategy"]:
        listed = listed.filter(strategy=chosen["strategy"])
    if chosen["outcome"]:
        listed = listed.ended_as(chosen["outcome"])
    return listed
