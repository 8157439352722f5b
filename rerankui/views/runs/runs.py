"""The list of runs that people and programs asked for, newest first unless another order is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryapp.models import Role, Run
from rerankui.access import requires, visible_owners
from rerankui.filters import RunFilter
from rerankui.pages import page_of, show


@require_safe
@requires(Role.VIEWER)
def run_list(request: HttpRequest) -> HttpResponse:
    owners = visible_owners(request)
    filters = RunFilter(request.GET, owners=owners)
    listed = Run.objects.by_hand().filter(owner__in=owners).select_related("owner", "operator")
    page = page_of(request, _filtered(listed, filters.chosen), filters.order)
    return show(request, "pages/runs/runs.html", "partials/runs/runs.html", {"filters": filters, "page": page})


def _filtered(listed: QuerySet[Run], chosen: Mapping[str, str]) -> QuerySet[Run]:
    if chosen["q"]:
        listed = listed.filter(query__icontains=chosen["q"])
    if chosen["user"]:
        listed = listed.filter(owner__name=chosen["user"])
    if chosen["strategy"]:
        listed = listed.filter(strategy=chosen["strategy"])
    if chosen["outcome"]:
        listed = listed.filter(_outcome_condition(chosen["outcome"]), state=Run.State.FINISHED)
    return listed


def _outcome_condition(outcome: str) -> Q:
    """``chosen`` and ``none`` are the model's own answers, with anything of the memory and with nothing of it."""
    if outcome not in ("chosen", "none"):
        return Q(fallback=outcome)
    nothing = Q(selected_count=0, selected_people_count=0, selected_artifact_count=0)
    return Q(nothing if outcome == "none" else ~nothing, fallback="")
